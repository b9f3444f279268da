// Suppresses the kernel launches of a candidate's own libraries while kw_suppress is on; preloaded into the worker.
// The calling library decides: launches from torch and from NVIDIA's libraries proceed.

#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <initializer_list>

namespace {

int suppressed = 0;
long left_out = 0;

struct Dim {
    unsigned x, y, z;
};

bool is_left_out(const void* caller) {
    Dl_info where;
    if (!suppressed || !dladdr(caller, &where) || !where.dli_fname) return false;
    const char* slash = std::strrchr(where.dli_fname, '/');
    const char* file = slash ? slash + 1 : where.dli_fname;
    for (const char* other : {"libtorch", "libc10", "libcu", "libnv"}) {
        if (std::strncmp(file, other, std::strlen(other)) == 0) return false;
    }
    ++left_out;
    return true;
}

}  // namespace

#define KW_INTERCEPT(name, parameters, arguments)                                      \
    int name parameters {                                                              \
        static auto next = reinterpret_cast<int(*) parameters>(dlsym(RTLD_NEXT, #name)); \
        return is_left_out(__builtin_return_address(0)) ? 0 : next arguments;          \
    }

extern "C" {

long kw_suppress(int on) {
    suppressed = on;
    return left_out;
}

// nvcc's host code calls the first two functions below from CUDA 13 on, and the third before CUDA 13.
KW_INTERCEPT(__cudaLaunchKernel, (void* kernel, Dim grid, Dim block, void** values, size_t shared, void* stream),
             (kernel, grid, block, values, shared, stream))
KW_INTERCEPT(__cudaLaunchKernel_ptsz, (void* kernel, Dim grid, Dim block, void** values, size_t shared, void* stream),
             (kernel, grid, block, values, shared, stream))
KW_INTERCEPT(cudaLaunchKernel, (const void* kernel, Dim grid, Dim block, void** values, size_t shared, void* stream),
             (kernel, grid, block, values, shared, stream))
KW_INTERCEPT(cudaLaunchCooperativeKernel,
             (const void* kernel, Dim grid, Dim block, void** values, size_t shared, void* stream),
             (kernel, grid, block, values, shared, stream))
KW_INTERCEPT(cudaLaunchKernelExC, (const void* options, const void* kernel, void** values),
             (options, kernel, values))

}  // extern "C"
