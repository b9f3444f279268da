// LayerNorm and RMSNorm of x + residual, where the sum is an output too: declarations for forward and backward.
#pragma once

#include "row_norm.cuh"

namespace kernelwright {

// added = x + residual, y = (added - mean) * rstd * weight + bias over the last dimension of [rows, length]. RMSNorm
// has no mean. The norm is computed from `added` as stored (rounded to dtype), like a separate norm of the stored sum.
struct AddRowForward {
    const void* x;
    const void* residual;
    const void* weight;  // param_dtype [length], or null
    const void* bias;    // param_dtype [length], or null
    void* y;
    void* added;
    float* mean;  // [rows], or null if not wanted
    float* rstd;
    int64_t rows, length;
    int64_t dtype, param_dtype;
    double eps;
    cudaStream_t stream;
    int64_t device;
};

struct AddRowBackward {
    const void* dy;
    const void* dadded;  // gradient of the output `added`, or null
    const void* added;
    const void* weight;
    const float* mean;
    const float* rstd;
    void* dx;       // gradient of both summands, or null if not wanted
    void* dweight;  // param_dtype [length], or null
    void* dbias;
    void* workspace;  // add_row_backward_workspace bytes
    int64_t rows, length;
    int64_t dtype, param_dtype;
    cudaStream_t stream;
    int64_t device;
};

// Returns a + b, element by element. Packs are passed by value: through a reference, half precision would be loaded
// element by element.
template <typename T, int V>
__device__ __forceinline__ Pack<T, V> total(Pack<T, V> a, Pack<T, V> b) {
    Pack<float, V> sum = widened(a);
    const Pack<float, V> other = widened(b);
    #pragma unroll
    for (int k = 0; k < V; ++k) sum.v[k] += other.v[k];
    return narrowed<T>(sum);
}

}  // namespace kernelwright
