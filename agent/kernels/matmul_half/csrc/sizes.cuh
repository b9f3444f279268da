// Arguments of the launchers. Every field takes 8 bytes, since Python packs the struct in one call.
#pragma once

#include "../../csrc/element.cuh"

namespace kernelwright::matmul_half {

// Arguments of y = alpha * a * b + beta * c, all float16 or all bfloat16. Strides are in elements and may be 0. No size
// is 0.
struct Forward {
    const void* a;
    const void* b;
    const void* c;                       // or null
    void* y;                             // [batch, m, n], contiguous
    int64_t batch, m, n, k;
    int64_t a_batch, a_row, a_depth;     // [batch, m, k]
    int64_t b_batch, b_depth, b_column;  // [batch, k, n]
    int64_t c_batch, c_row, c_column;    // [batch, m, n]
    int64_t dtype;                       // value of Dtype, not kFloat32
    double alpha, beta;
    cudaStream_t stream;
    int64_t device;
};

// Arguments of a copy of `from` [from_rows, from_length] to `to` [rows, length], cropped or zero-padded, both
// contiguous. No size is 0.
struct Rows {
    const void* from;
    void* to;
    int64_t from_rows, from_length;
    int64_t rows, length;
    cudaStream_t stream;
    int64_t device;
};

}  // namespace kernelwright::matmul_half
