// LayerNorm and RMSNorm over contiguous rows: what the two directions share. Statistics are in float32.
#pragma once

#include <cstring>
#include <type_traits>

#include "block.cuh"

namespace kernelwright {

// y = (x - mean) * rstd * weight + bias over the last dimension of [rows, length]; RMSNorm has no mean.
struct RowForward {
    const void* x;
    const void* weight;  // param_dtype [length], or null
    const void* bias;    // param_dtype [length], or null
    void* y;
    float* mean;  // [rows], or null where it is not wanted
    float* rstd;
    int64_t rows, length;
    int64_t dtype, param_dtype;
    double eps;
    cudaStream_t stream;
    int64_t device;
};

struct RowBackward {
    const void* dy;
    const void* x;
    const void* weight;
    const float* mean;
    const float* rstd;
    void* dx;       // or null where it is not wanted
    void* dweight;  // param_dtype [length], or null
    void* dbias;
    void* workspace;  // row_backward_workspace bytes
    int64_t rows, length;
    int64_t dtype, param_dtype;
    cudaStream_t stream;
    int64_t device;
};

__device__ __forceinline__ float2 to_floats(__half2 two) { return __half22float2(two); }
__device__ __forceinline__ float2 to_floats(__nv_bfloat162 two) {
    uint32_t word;  // the upper half of a float each; taken as a word, for CUDA's own function takes the halves apart
    memcpy(&word, &two, sizeof word);
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}

template <typename Two>
__device__ __forceinline__ Two from_floats(float a, float b) {
    if constexpr (std::is_same_v<Two, __half2>) return __floats2half2_rn(a, b);
    else return __floats2bfloat162_rn(a, b);
}

// Whether rows and parameters can be read in vectors of T.
template <typename T, typename P>
bool in_vectors(int64_t length, const void* a, const void* b, const void* c, const void* p, const void* q) {
    constexpr int64_t parameter = sizeof(Pack<P, kVector<T>>);
    const bool params = reinterpret_cast<uintptr_t>(p) % parameter == 0 && reinterpret_cast<uintptr_t>(q) % parameter == 0;
    return length % kVector<T> == 0 && aligned(a) && aligned(b) && aligned(c) && params;
}

// A pack as floats, and floats as a pack. Elements of 16 bits go in twos: one by one the compiler spends an instruction
// on each to take them out of their word.
template <typename T, int V>
__device__ __forceinline__ Pack<float, V> widened(const Pack<T, V>& pack) {
    Pack<float, V> wide;
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        if constexpr (V % 2 == 0 && sizeof(T) == sizeof(__half)) {
            using Two = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
            if (k % 2 == 1) continue;
            Two two;
            memcpy(&two, &pack.v[k], sizeof two);
            const float2 both = to_floats(two);
            wide.v[k] = both.x;
            wide.v[k + 1] = both.y;
        } else {
            wide.v[k] = to_float(pack.v[k]);
        }
    }
    return wide;
}

template <typename T, int V>
__device__ __forceinline__ Pack<T, V> narrowed(const Pack<float, V>& wide) {
    Pack<T, V> pack;
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        if constexpr (V % 2 == 0 && sizeof(T) == sizeof(__half)) {
            using Two = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
            if (k % 2 == 1) continue;
            const Two two = from_floats<Two>(wide.v[k], wide.v[k + 1]);
            memcpy(&pack.v[k], &two, sizeof two);
        } else {
            pack.v[k] = from_float<T>(wide.v[k]);
        }
    }
    return pack;
}

template <typename T, int V>
__device__ __forceinline__ Pack<T, V> filled(float value) {
    Pack<float, V> wide;
    #pragma unroll
    for (int k = 0; k < V; ++k) wide.v[k] = value;
    return narrowed<T>(wide);
}

// The compiler would keep 16-bit elements as the floats that they became, in twice the registers.
template <typename T, int V>
__device__ __forceinline__ void keep_as_stored(Pack<T, V>& pack) {
    if constexpr (sizeof(T) < sizeof(float) && sizeof(pack) == sizeof(uint4)) {
        uint4 words;
        memcpy(&words, &pack, sizeof words);
        asm volatile("" : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w));
        memcpy(&pack, &words, sizeof words);
    }
}

// f(u, at) for each of a thread's kPacks packs that lie in the row; `at` begins at `first`, a step apart.
template <int kPacks, typename F>
__device__ __forceinline__ void each_pack(int64_t first, int64_t step, int64_t packs, F f) {
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        const int64_t at = first + u * step;
        if (at < packs) f(u, at);
    }
}

}  // namespace kernelwright
