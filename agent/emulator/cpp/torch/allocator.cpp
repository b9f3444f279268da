// Allocates torch's CPU tensors in the emulated device's memory, because each of them represents a tensor on a GPU.
// So the bounds of results of torch's operators are known too, and all memory elsewhere is host memory.
//
// The file is compiled against the headers of the torch that loads it.
#include "kw/runtime.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

namespace {

void release(void* pointer) { kw_free(pointer); }

class DeviceAllocator final : public c10::Allocator {
  public:
    c10::DataPtr allocate(size_t bytes) override {
        void* pointer = bytes == 0 ? nullptr : kw_alloc_unfilled(bytes);
        TORCH_CHECK(bytes == 0 || pointer != nullptr, "CUDA out of memory. Tried to allocate ", bytes, " bytes.");
        return {pointer, pointer, release, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return release; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

// Sets torch's CPU allocator for the rest of the process; existing tensors keep their memory.
extern "C" void kw_serve_torch(void) {
    static DeviceAllocator allocator;
    c10::SetCPUAllocator(&allocator, 100);
}
