// The activations that can follow the norm, and their derivatives: torch's formulas, in float. T is what z is stored as.
//
// Kernels call them for a whole pack and as functions: inlined for every lane, six of them with their polynomials
// would be most of a kernel's code and of the time that it takes to compile.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "elements.cuh"
#include "interface.h"

namespace kernelwright::group_norm {

// exp(z) and a / b: for elements of 16 bits by the instructions that approximate them, some 1e-6 off, which rounding to
// 11 bits hides. They are a third of what expf and a division take, and that counts beside memory's rate.
template <typename T>
__device__ __forceinline__ float exponential(float z) {
    return sizeof(T) == 2 ? __expf(z) : expf(z);
}

template <typename T>
__device__ __forceinline__ float ratio(float a, float b) {
    return sizeof(T) == 2 ? __fdividef(a, b) : a / b;
}

template <typename T = float>
__device__ __forceinline__ float activate(int64_t act, float z) {
    switch (act) {
        case kSilu: return ratio<T>(z, 1.0f + exponential<T>(-z));
        case kGelu: return 0.5f * z * (1.0f + erff(z * 0.70710678118654752f));
        case kRelu: return z <= 0.0f ? 0.0f : z;  // NaN stays
        case kTanh: return tanhf(z);
        case kHardswish: return z * fminf(fmaxf(z + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f);
        default: return z;
    }
}

template <typename T = float>
__device__ __forceinline__ float derivative(int64_t act, float z) {
    switch (act) {
        case kSilu: {
            const float s = ratio<T>(1.0f, 1.0f + exponential<T>(-z));
            return s * (1.0f + z * (1.0f - s));
        }
        case kGelu: {
            const float density = 0.39894228040143268f * exponential<T>(-0.5f * z * z);
            return 0.5f * (1.0f + erff(z * 0.70710678118654752f)) + z * density;
        }
        case kRelu: return z <= 0.0f ? 0.0f : 1.0f;
        case kTanh: {
            const float t = tanhf(z);
            return 1.0f - t * t;
        }
        case kHardswish: return z <= -3.0f ? 0.0f : (z < 3.0f ? z * (1.0f / 3.0f) + 0.5f : 1.0f);
        default: return 1.0f;
    }
}

// act(z) of each lane.
template <typename T, int V>
__device__ __noinline__ Pack<float, V> activate_pack(int64_t act, Pack<float, V> z) {
    #pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = activate<T>(act, z.v[k]);
    return z;
}

// act'(z) of each lane.
template <typename T, int V>
__device__ __noinline__ Pack<float, V> derivative_pack(int64_t act, Pack<float, V> z) {
    #pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = derivative<T>(act, z.v[k]);
    return z;
}

}  // namespace kernelwright::group_norm
