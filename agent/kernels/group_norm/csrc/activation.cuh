// Activations that can follow the norm and their derivatives, by torch's formulas, in float.
//
// Kernels call them for a whole pack and out of line. Inlined for every lane, six activations with their polynomials
// would dominate a kernel's code size and compile time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "elements.cuh"
#include "interface.h"

namespace kernelwright::group_norm {

__device__ __forceinline__ float activate(int64_t act, float z) {
    switch (act) {
        case kSilu: return __fdividef(z, 1.0f + expf(-z));
        case kGelu: return 0.5f * z * (1.0f + erff(z * 0.70710678118654752f));
        case kRelu: return z <= 0.0f ? 0.0f : z;  // this form propagates NaN
        case kTanh: return tanhf(z);
        case kHardswish: return z * fminf(fmaxf(z + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f);
        default: return z;
    }
}

__device__ __forceinline__ float derivative(int64_t act, float z) {
    switch (act) {
        case kSilu: {
            const float s = __fdividef(1.0f, 1.0f + expf(-z));
            return s * (1.0f + z * (1.0f - s));
        }
        case kGelu: {
            const float density = 0.39894228040143268f * expf(-0.5f * z * z);
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

// Returns act(z), elementwise.
template <int V>
__device__ __noinline__ Pack<float, V> activate_pack(int64_t act, Pack<float, V> z) {
    #pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = activate(act, z.v[k]);
    return z;
}

// Returns the derivative act'(z), elementwise.
template <int V>
__device__ __noinline__ Pack<float, V> derivative_pack(int64_t act, Pack<float, V> z) {
    #pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = derivative(act, z.v[k]);
    return z;
}

}  // namespace kernelwright::group_norm
