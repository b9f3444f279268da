// Reads marked evict-first in L2, for tensors too large to be found there again. L2 then keeps what other kernels have
// left there or not yet written back.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace kernelwright {

// Reads with the default policy.
struct Plain {
    template <typename P>
    __device__ __forceinline__ P load(const P* from) const { return *from; }
};

#ifndef KW_PORTABLE_ONLY
class Streamed {
public:
    // Reads with the default policy if `streams` is false.
    __device__ __forceinline__ explicit Streamed(bool streams) {
        if (streams) {
            asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
        } else {
            asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
        }
    }

    template <typename P>
    __device__ __forceinline__ P load(const P* from) const {
        if constexpr (sizeof(P) == sizeof(uint4)) {
            uint4 words;
            asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                         : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                         : "l"(from), "l"(policy));
            P found;
            memcpy(&found, &words, sizeof(words));
            return found;
        } else if constexpr (sizeof(P) == sizeof(uint32_t)) {
            uint32_t word;
            asm volatile("ld.global.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(word) : "l"(from), "l"(policy));
            P found;
            memcpy(&found, &word, sizeof(word));
            return found;
        } else {
            return *from;
        }
    }

private:
    uint64_t policy;
};

// Reads data that is used once, evict-first. Threads that read little use it, since it needs no policy register.
template <typename P>
__device__ __forceinline__ P read_once(const P* from) {
    using Word = std::conditional_t<
        sizeof(P) == sizeof(uint4), uint4,
        std::conditional_t<
            sizeof(P) == sizeof(uint2), uint2, std::conditional_t<sizeof(P) == sizeof(unsigned), unsigned, unsigned short>>>;
    static_assert(sizeof(Word) == sizeof(P));
    const Word word = __ldcs(reinterpret_cast<const Word*>(from));
    P found;
    memcpy(&found, &word, sizeof(word));
    return found;
}

// Returns true if a tensor of `bytes` that is read once should be streamed. Below half of L2 the tensor would still be
// there for the next kernel. Above four times L2 the gain is smaller than the cost of evict-first reads (H100: 3 % at
// 0.5 GB).
inline bool is_streamed(int64_t bytes, int64_t device) {
    int l2 = 0;
    return cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, int(device)) == cudaSuccess && bytes > l2 / 2 &&
           bytes <= int64_t{4} * l2;
}

#else
struct Streamed : Plain {
    __device__ __forceinline__ explicit Streamed(bool) {}
};

template <typename P>
__device__ __forceinline__ P read_once(const P* from) {
    return *from;
}

inline bool is_streamed(int64_t, int64_t) { return false; }
#endif

}  // namespace kernelwright
