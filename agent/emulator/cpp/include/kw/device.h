// CUDA device code for g++: include this before a candidate's rewritten source.
//
// NVIDIA's headers supply the types, vector types, the runtime API and most of half and bfloat16. This header and its
// parts add the names that NVIDIA's headers define only under nvcc. Inline PTX, tensor cores and textures are missing;
// constructs.unsupported reports sources that use them.
#pragma once

#include <cassert>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <math.h>
#include <stdlib.h>
#include <type_traits>
#include <utility>

#include <cuComplex.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <math_constants.h>

#include "kw/runtime.h"

// Keeps NVIDIA's header from declaring threadIdx, blockIdx, blockDim and gridDim as plain globals. On the emulator they
// are thread-local.
#define __DEVICE_LAUNCH_PARAMETERS_H__
#define KW_TLS_EXTERN(type, name, symbol) \
    extern __thread type name __asm__(symbol) __attribute__((tls_model("initial-exec")))

// The variables are const, because a thread's indices never change while it runs. The compiler may then keep them
// across barriers, and does not announce their reads as accesses. The type is uint3, because dim3's constructors
// prevent that.
KW_TLS_EXTERN(const uint3, threadIdx, "kw_thread_index");
KW_TLS_EXTERN(const uint3, blockIdx, "kw_block_index");
KW_TLS_EXTERN(const int, kw_lane, "kw_lane");
KW_TLS_EXTERN(char* const, kw_shared_base, "kw_shared_base");
KW_TLS_EXTERN(const int, kw_spinning, "kw_spinning");
KW_TLS_EXTERN(const int, kw_now_asking_name, "kw_asking_name");
KW_TLS_EXTERN(const uint3, blockDim, "kw_block_dim");
KW_TLS_EXTERN(const uint3, gridDim, "kw_grid_dim");

// warpSize is extern and so no constant expression: an array of warpSize elements is refused, as with nvcc.
extern const int warpSize __asm__("kw_warp_size");
// 1 while kw_check has turned checks on; constant while a kernel runs.
extern const int kw_now_checking __asm__("kw_checking");

#define KW_DEVICE static inline __attribute__((always_inline))

// nvcc's attributes, which g++ does not know. A __shared__ variable that the rewriter missed (in a macro) becomes
// thread-local; the threads of a block share it, because one OS thread runs them all.
#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __managed__
#undef __shared__
#undef __launch_bounds__
#undef __maxnreg__
#undef __grid_constant__
#undef __noinline__
#undef __cluster_dims__
#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __noinline__
#define __cluster_dims__(...)

namespace kw {

// True if all kernels of the unit begin with KW_KERNEL; KW_KERNELS_NAMED at the unit's end sets it.
static bool kernels_named;

// Arguments of <<<...>>>. dim3 converts from any integer, as in CUDA.
struct Config {
    dim3 grid;
    dim3 block;
    size_t dynamic_bytes;
    cudaStream_t stream;
    Config(dim3 g, dim3 b, size_t bytes = 0, cudaStream_t s = nullptr)
        : grid(g), block(b), dynamic_bytes(bytes), stream(s) {}
};

// Entry point of a launch within an extension. A replay finds the instances of this template by the start of their
// mangled name, which agent/contracts generates.
template <class Thread>
void launch_entry(void* thread) {
    (*static_cast<Thread*>(thread))();
}

// kernel<<<config>>>(arguments) is rewritten to Launch(name, line, by_pointer, Config(config))(call, arguments). The
// arguments are evaluated once; each thread gets its own copies, converted to the kernel's parameters.
class Launch {
  public:
    Launch(const char* name, int line, bool by_pointer, const Config& config)
        : request_{sizeof(kw_launch_request), name, line, by_pointer, config.grid, config.block,
                   config.dynamic_bytes, nullptr, nullptr, 0, config.stream, 0, {0, 0, 0}} {}

    // Applies the attributes of cudaLaunchKernelEx. Attributes that affect only the speed are ignored.
    Launch& with(const cudaLaunchConfig_t& config) {
        for (unsigned k = 0; k < config.numAttrs; k++) {
            const cudaLaunchAttribute& attribute = config.attrs[k];
            if (attribute.id == cudaLaunchAttributeClusterDimension) {
                request_.cluster[0] = attribute.val.clusterDim.x;
                request_.cluster[1] = attribute.val.clusterDim.y;
                request_.cluster[2] = attribute.val.clusterDim.z;
            } else if (attribute.id == cudaLaunchAttributeCooperative) {
                request_.cooperative = attribute.val.cooperative;
            }
        }
        return *this;
    }

    template <class Call, class... Arguments>
    void operator()(Call call, Arguments... arguments) {
        auto one_thread = [=]() mutable { call(arguments...); };
        request_.arguments = &one_thread;
        request_.argument_bytes = sizeof one_thread;
        request_.entry = launch_entry<decltype(one_thread)>;
        if (kernels_named) kw_name_kernel(request_.entry, request_.arguments);
        if (kw_launch(&request_) != 0) abort();
    }

    // Launches as cudaLaunchCooperativeKernel does; arguments[i] points to the value of parameter i.
    template <class... Parameters>
    cudaError_t cooperative(void (*kernel)(Parameters...), void** arguments) {
        request_.cooperative = 1;
        with(kernel, arguments, std::index_sequence_for<Parameters...>());
        return cudaPeekAtLastError();
    }

  private:
    template <class... Parameters, size_t... Is>
    void with(void (*kernel)(Parameters...), void** arguments, std::index_sequence<Is...>) {
        (*this)(kernel, *static_cast<std::remove_reference_t<Parameters>*>(arguments[Is])...);
    }

    kw_launch_request request_;
};

// cudaLaunchCooperativeKernel((void*)kernel, ...) is rewritten to launch_cooperative, which keeps the kernel's type.
template <class... Parameters>
cudaError_t launch_cooperative(const char* name, int line, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                               void** arguments, size_t dynamic_bytes = 0, cudaStream_t stream = nullptr) {
    return Launch(name, line, false, Config(grid, block, dynamic_bytes, stream)).cooperative(kernel, arguments);
}

// cudaLaunchKernelEx(&config, kernel, ...) is rewritten to launch_extended.
template <class... Parameters, class... Arguments>
cudaError_t launch_extended(const char* name, int line, const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                            Arguments&&... arguments) {
    const Config shape(config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream);
    Launch(name, line, false, shape).with(*config)(kernel, Parameters(arguments)...);
    return cudaPeekAtLastError();
}

// Returns the address of a __shared__ variable. Not instrumented, because the kernel does not make these accesses.
__attribute__((no_sanitize("thread"))) inline void* shared_address(kw_shared_site& site) {
    if (__atomic_load_n(&site.launch, __ATOMIC_ACQUIRE) != kw_launch_serial) kw_place_shared(&site);
    return kw_shared_base + site.offset;
}

template <class T>
KW_DEVICE uint64_t to_bits(const T& value) {
    static_assert(sizeof(T) <= 8, "at most 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <class T>
KW_DEVICE T from_bits(uint64_t bits) {
    T value;
    __builtin_memcpy(static_cast<void*>(&value), &bits, sizeof(T));
    return value;
}

}  // namespace kw

#define KW_NAME(...) #__VA_ARGS__

// First statement of every kernel: when asked for its name, it reports its signature and returns.
#define KW_KERNEL                                   \
    if (kw_now_asking_name != 0) {                  \
        kw_kernel_is(__PRETTY_FUNCTION__);          \
        return;                                     \
    }
// Precedes KW_KERNEL in a kernel declared with __cluster_dims__.
#define KW_CLUSTER(...)                                                    \
    if (kw_now_asking_name != 0) {                                         \
        const dim3 kw_dims(__VA_ARGS__);                                   \
        kw_kernel_cluster(kw_dims.x, kw_dims.y, kw_dims.z);                \
    }
#define KW_KERNELS_NAMED [[maybe_unused]] static const bool kw_kernels_named = kw::kernels_named = true;

// True if the launch is unchecked and another unit has set `pointer` to the kernel's translation. The pointer is read
// in assembly, so that the read is not checked, and because the compiler sees no writer and would fold the read.
#define KW_UNCHECKED(pointer)                                       \
    (kw_now_checking == 0 && ({                                         \
         decltype(pointer) kw_value;                                \
         __asm__("movq %1, %0" : "=r"(kw_value), "+m"(pointer));    \
         kw_value != nullptr;                                       \
     }))

// Refers to the current block's __shared__ variable `name` of type T.
#define KW_SHARED(T, name)                                             \
    (*static_cast<T*>([]() -> void* {                                  \
        static kw_shared_site site = {sizeof(T), #name, __LINE__, 0, 0}; \
        return kw::shared_address(site);                               \
    }()))

// Replacements of `extern __shared__ T name[]` within a function, and at namespace scope. Both use a thread-local
// pointer that the runtime sets. (Within a template g++ would lose the symbol of a local extern declaration.)
#define KW_DYNAMIC_SHARED(T, name) T* const name = static_cast<T*>(static_cast<void*>(kw_shared_base))
#define KW_DYNAMIC_SHARED_GLOBAL(T, name) KW_TLS_EXTERN(T* const, name, "kw_shared_base")

#define __syncthreads() static_cast<void>(kw_barrier(KW_BARRIER_PLAIN, 0, __LINE__, __COUNTER__))
#define __syncthreads_count(p) kw_barrier(KW_BARRIER_COUNT, (p) != 0, __LINE__, __COUNTER__)
#define __syncthreads_and(p) kw_barrier(KW_BARRIER_AND, (p) != 0, __LINE__, __COUNTER__)
#define __syncthreads_or(p) kw_barrier(KW_BARRIER_OR, (p) != 0, __LINE__, __COUNTER__)

// Checked execution distinguishes __threadfence and __threadfence_block by their memory order.
KW_DEVICE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
KW_DEVICE void __threadfence_block() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
KW_DEVICE void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
KW_DEVICE void __nanosleep(unsigned) { kw_yield(); }
KW_DEVICE long long clock64() { return kw_clock(); }
[[noreturn]] KW_DEVICE void __trap(int line = __builtin_LINE()) { kw_trap(line); }

// Replaces the target of assert(), however often a source includes <cassert>.
#define __assert_fail kw_assert_fail

namespace kw {

// Reads *p in assembly, so that the compiler does not announce it as a plain read.
template <class T>
KW_DEVICE T unannounced(const T* p) {
    if constexpr (sizeof(T) == 4) {
        uint32_t word;
        __asm__ volatile("movl %1, %0" : "=r"(word) : "m"(*reinterpret_cast<const uint32_t*>(p)));
        return from_bits<T>(word);
    } else {
        uint64_t word;
        __asm__ volatile("movq %1, %0" : "=r"(word) : "m"(*reinterpret_cast<const uint64_t*>(p)));
        return from_bits<T>(word);
    }
}

}  // namespace kw

template <class T> KW_DEVICE T __ldg(const T* p) {
    if (kw_now_checking != 0) kw_read_only(p, sizeof(T));
    return *p;
}
template <class T> KW_DEVICE T __ldca(const T* p) { return *p; }
// __ldcg and __ldcv see writes of other blocks, so waiting loops use them, and they count as polls.
template <class T> KW_DEVICE T __ldcg(const T* p) {
    if constexpr (sizeof(T) != 4 && sizeof(T) != 8) {
        return *p;
    } else {
        if (kw_now_checking != 0) kw_cached_read(p, sizeof(T));
        const T value = kw::unannounced(p);
        kw_poll(p, kw::to_bits(value));
        return value;
    }
}
template <class T> KW_DEVICE T __ldcv(const T* p) { return __ldcg(p); }
template <class T> KW_DEVICE T __ldcs(const T* p) { return *p; }
template <class T> KW_DEVICE T __ldlu(const T* p) { return *p; }
template <class T> KW_DEVICE void __stcg(T* p, T v) { *p = v; }
template <class T> KW_DEVICE void __stcs(T* p, T v) { *p = v; }
template <class T> KW_DEVICE void __stwb(T* p, T v) { *p = v; }
template <class T> KW_DEVICE void __stwt(T* p, T v) { *p = v; }
KW_DEVICE size_t __cvta_generic_to_shared(const void* p) { return reinterpret_cast<size_t>(p); }

#include "kw/device_warp.h"
#include "kw/device_atomic.h"
#include "kw/device_math.h"
#include "kw/device_convert.h"
#include "kw/device_half.h"
#include "kw/device_symbol.h"

// nvcc's macros, for the candidate's device code. NVIDIA's headers above must be read without them.
#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDA_ARCH__ 900
// Further macros of nvcc, so that code cannot detect that g++ compiles it.
#define __CUDACC_VER_BUILD__ 88
#define __CUDA_API_VER_MAJOR__ 13
#define __CUDA_API_VER_MINOR__ 0
#define __CUDA_ARCH_LIST__ 900
#define __CUDACC_DEVICE_ATOMIC_BUILTINS__ 1
#define __NVCC_DIAG_PRAGMA_SUPPORT__ 1
