// List of launched kernels by the compiler's signature. The callee as written in a launch would show neither the target
// of a function pointer nor the template arguments.
//
// The list keeps the largest block and the most dynamic shared memory of each kernel's launches. If a GPU cannot start
// some launch of the kernel, it cannot start one of these sizes either. A kernel called while kw_asking_name is set
// reports its name and returns (kw/device.h).
#include "state.h"

#include <algorithm>
#include <mutex>

extern "C" {
KW_TLS int kw_asking_name;
}

namespace kw {

namespace {

constexpr size_t kMaxKernels = 256;

struct Launched {
    std::string kernel;
    unsigned long threads;  // maximum number of threads per block
    size_t shared;
    int line;
};

std::mutex seen_mutex;
std::vector<Launched> seen;
thread_local const char* signature;        // signature of the kernel that this thread is about to launch
thread_local void (*signature_of)(void*);  // entry of the launch to which `signature` belongs
thread_local unsigned clusters[3];         // cluster dimensions that the kernel to launch declares

}  // namespace

void note_kernel(const kw_launch_request& r) {
    const std::string kernel = signature != nullptr && signature_of == r.entry ? signature : r.name;
    const std::lock_guard<std::mutex> lock(seen_mutex);
    const unsigned long threads = static_cast<unsigned long>(r.block.x) * r.block.y * r.block.z;
    const auto known =
        std::find_if(seen.begin(), seen.end(), [&](const Launched& other) { return other.kernel == kernel; });
    if (known != seen.end()) {
        known->threads = std::max(known->threads, threads);
        known->shared = std::max(known->shared, r.dynamic_bytes);
    } else if (seen.size() < kMaxKernels) {
        seen.push_back({kernel, threads, r.dynamic_bytes, r.line});
    }
}

// Applies the kernel's __cluster_dims__, unless the launch states its own.
void add_declared_cluster(kw_launch_request& r) {
    if (signature_of != r.entry || r.cluster[0] != 0 || clusters[0] == 0) return;
    std::copy_n(clusters, 3, r.cluster);
}

void forget_kernels() {
    const std::lock_guard<std::mutex> lock(seen_mutex);
    seen.clear();
}

}  // namespace kw

using namespace kw;

extern "C" void kw_name_kernel(void (*entry)(void*), void* arguments) {
    if (current_worker != nullptr) return;
    signature = nullptr;
    std::fill_n(clusters, 3, 0u);
    signature_of = entry;
    kw_asking_name = 1;
    entry(arguments);
    kw_asking_name = 0;
}

extern "C" void kw_kernel_cluster(unsigned x, unsigned y, unsigned z) {
    const unsigned dims[] = {x, y, z};
    std::copy_n(dims, 3, clusters);
}

extern "C" void kw_kernel_is(const char* its_signature) { signature = its_signature; }

extern "C" size_t kw_kernels(char* buffer, size_t capacity) {
    const std::lock_guard<std::mutex> lock(seen_mutex);
    std::string text;
    for (const Launched& launched : seen) {
        text += (text.empty() ? "[" : ", ") + ("{\"kernel\": " + quoted(launched.kernel)) +
                format(", \"threads\": %lu, \"shared\": %zu, \"line\": %d}", launched.threads, launched.shared, launched.line);
    }
    return copy_text(text.empty() ? "[]" : text + "]", buffer, capacity);
}
