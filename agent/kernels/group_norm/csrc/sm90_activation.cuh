// Activations on sm_90. SiLU, the activation of most models, is inlined.
#pragma once

#include "../../csrc/cluster_sm90.cuh"
#include "activation.cuh"
#include "elements.cuh"

namespace kernelwright::group_norm::sm90 {

using namespace kernelwright::sm90;

// Returns 1 / (1 + exp(-z)); for 16-bit types with an error of some 1e-6.
template <typename T>
__device__ __forceinline__ float sigmoid(float z) {
    const float power = sizeof(T) == 2 ? approximate_exp2(z * -1.4426950408889634f) : expf(-z);
    return approximate_reciprocal(1.0f + power);
}

// Return act(z) and act'(z) of a pack, like activate_pack and derivative_pack.
template <typename T, int V>
__device__ __forceinline__ Pack<float, V> activated(int64_t act, Pack<float, V> z) {
    if (act != kSilu) return activate_pack<V>(act, z);
    #pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] *= sigmoid<T>(z.v[k]);
    return z;
}

template <typename T, int V>
__device__ __forceinline__ Pack<float, V> slopes(int64_t act, Pack<float, V> z) {
    if (act != kSilu) return derivative_pack<V>(act, z);
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        const float s = sigmoid<T>(z.v[k]);
        z.v[k] = s * fmaf(z.v[k], 1.0f - s, 1.0f);
    }
    return z;
}

}  // namespace kernelwright::group_norm::sm90
