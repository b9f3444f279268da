// Storage types and their conversion to float. All arithmetic is in float32, whatever the storage type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

// Bit mask of the compiled dtypes, bit 1 << Dtype each. A library of one dtype builds in a third of the time.
#ifndef KW_DTYPES
#define KW_DTYPES 7
#endif

namespace kernelwright {

enum Dtype : int64_t { kFloat32 = 0, kFloat16 = 1, kBFloat16 = 2 };

constexpr int kWarp = 32;
constexpr int kVectorBytes = 16;           // widest load of a single thread
constexpr int64_t kMaxGrid = 0x7fffffff;  // maximum number of blocks in x

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) { return value; }
template <>
__device__ __forceinline__ __half from_float<__half>(float value) { return __float2half_rn(value); }
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
    return __float2bfloat16_rn(value);
}

// V elements that are loaded and stored as one vector.
template <typename T, int V>
struct alignas(sizeof(T) * V) Pack {
    T v[V];
};

template <typename T>
constexpr int kVector = kVectorBytes / int(sizeof(T));

inline bool aligned(const void* data) {  // a null pointer counts as aligned: it is never loaded from
    return reinterpret_cast<uintptr_t>(data) % kVectorBytes == 0;
}

__host__ __device__ constexpr bool is_compiled(Dtype type) { return (KW_DTYPES & 1 << type) != 0; }

// Calls f(T{}) with the storage type of `dtype`; cudaErrorInvalidValue if that type is not compiled.
template <typename F>
cudaError_t with_dtype(int64_t dtype, F f) {
    if constexpr (is_compiled(kFloat32)) {
        if (dtype == kFloat32) return f(float{});
    }
    if constexpr (is_compiled(kFloat16)) {
        if (dtype == kFloat16) return f(__half{});
    }
    if constexpr (is_compiled(kBFloat16)) {
        if (dtype == kBFloat16) return f(__nv_bfloat16{});
    }
    return cudaErrorInvalidValue;
}

// Calls f(T{}, P{}). Parameters have the dtype of the elements or float32.
template <typename F>
cudaError_t with_dtypes(int64_t dtype, int64_t param_dtype, F f) {
    if (param_dtype != dtype && param_dtype != kFloat32) return cudaErrorInvalidValue;
    return with_dtype(dtype, [&](auto element) {
        if (param_dtype == kFloat32) return f(element, float{});
        return f(element, element);
    });
}

}  // namespace kernelwright
