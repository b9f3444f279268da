// Shared memory of a block: dynamic memory first, then each __shared__ variable when it is first reached.
//
// All blocks of a launch share one layout; each OS thread has its own memory. Unwritten bytes, also those between
// variables, hold the fill of fresh device memory (draw.cpp).
#include "watch.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sys/mman.h>

extern "C" {
uint32_t kw_launch_serial;
}

namespace kw {

namespace {

constexpr size_t kGap = 128;  // bytes between variables, and their alignment, which suffices for every access of a GPU

constexpr size_t kSwizzled = 1024;  // alignment in bytes that swizzled tensor maps need

std::mutex layout_mutex;
std::atomic<size_t> layout_end;
size_t static_bytes;

size_t rounded(size_t bytes) { return (bytes + kGap - 1) / kGap * kGap; }

}  // namespace

void begin_shared_layout(size_t dynamic_bytes) {
    kw_launch_serial++;
    static_bytes = 0;
    layout_end = rounded(dynamic_bytes) + kGap;
    begin_shared_bounds();
    add_shared_bounds(0, dynamic_bytes, "", 0);
}

// Fills the shared memory for a new block, up to shared_dirty only, because the memory behind still holds shared_word.
void prepare_shared(Worker& worker) {
    if (worker.shared == nullptr) {
        void* memory =
            mmap(nullptr, kSharedArena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            std::fprintf(stderr, "emulator: no memory for the shared memory of a block\n");
            std::exit(70);
        }
        worker.shared = static_cast<char*>(memory);
        worker.shared_dirty = kSharedArena;
    }
    if (worker.shared_word != fresh_word()) worker.shared_dirty = kSharedArena;
    worker.shared_word = fresh_word();
    fill_fresh(worker.shared, worker.shared_dirty);
    worker.shared_dirty = 0;
    kw_shared_base = worker.shared;
}

void release_shared(Worker& worker) {
    if (worker.shared != nullptr) munmap(worker.shared, kSharedArena);
    worker.shared = nullptr;
}

void note_shared_use(Worker& worker) { worker.shared_dirty = layout_end; }

}  // namespace kw

using namespace kw;

extern "C" void kw_place_shared(kw_shared_site* site) {
    std::unique_lock<std::mutex> lock(layout_mutex);
    if (site->launch == kw_launch_serial) return;
    // Large variables may need an alignment of 1024: swizzles of tensor maps depend on the address.
    const size_t unit = site->bytes >= kSwizzled ? kSwizzled : kGap;
    const size_t offset = (layout_end + unit - 1) / unit * unit;
    const Launch* launch = current_launch();
    const size_t dynamic_bytes = launch == nullptr ? 0 : launch->request->dynamic_bytes;
    const size_t limit = launch == nullptr ? kDefaultSharedLimit : launch->shared.together;
    static_bytes += site->bytes;
    const size_t wanted = static_bytes;
    const bool fits = wanted <= kDefaultSharedLimit && wanted + dynamic_bytes <= limit &&
                      rounded(offset + site->bytes) + kGap <= kSharedArena;
    if (fits) {
        layout_end = rounded(offset + site->bytes) + kGap;
        site->offset = static_cast<uint32_t>(offset);
        add_shared_bounds(offset, site->bytes, site->name, site->line);
        __atomic_store_n(&site->launch, kw_launch_serial, __ATOMIC_RELEASE);
        return;
    }
    lock.unlock();
    if (current_worker == nullptr) std::abort();  // host code called the kernel as a function
    std::string text =
        wanted > kDefaultSharedLimit
            ? format("The kernel's __shared__ variables need %zu bytes up to '%s'; the limit is %zu bytes "
                     "(nvcc would refuse to build it).",
                     wanted, site->name, kDefaultSharedLimit)
            : format("The block needs %zu bytes of shared memory (%zu static up to '%s' and %zu dynamic); "
                     "the limit of this launch is %zu bytes.",
                     wanted + dynamic_bytes, wanted, site->name, dynamic_bytes, limit);
    abandon(*current_worker, Fault::kSharedLimit, std::move(text), site->line);
}
