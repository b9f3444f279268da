// LayerNorm and RMSNorm over contiguous rows: what the two directions share. Statistics are in float32.
#pragma once

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

// Whether rows and parameters can be read in vectors of T.
template <typename T, typename P>
bool in_vectors(int64_t length, const void* a, const void* b, const void* c, const void* p, const void* q) {
    constexpr int64_t parameter = sizeof(Pack<P, kVector<T>>);
    const bool params = reinterpret_cast<uintptr_t>(p) % parameter == 0 && reinterpret_cast<uintptr_t>(q) % parameter == 0;
    return length % kVector<T> == 0 && aligned(a) && aligned(b) && aligned(c) && params;
}

}  // namespace kernelwright
