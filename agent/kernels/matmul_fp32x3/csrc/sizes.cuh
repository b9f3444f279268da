// Arguments and sizes shared by all paths. Every field takes 8 bytes, since Python packs the struct in one call.
#pragma once

#include "../../linear_fp32x3/csrc/sizes.cuh"

namespace kernelwright::matmul {

// Precisions in addition to linear::Precision. kFp32x4 adds lo * lo. kBf16x6 splits each value into three bf16 as it is read. kSparseA is
// float arithmetic that skips zeros of a, where a and b must be kWhole.
enum More : int64_t { kFp32x4 = 2, kBf16x6 = 3, kSparseA = 4 };

// Part of a matrix that exists: all, or one side of the diagonal. The other side counts as 0 and is not read.
enum Part : int64_t { kWhole = 0, kLower = 1, kUpper = 2 };

// Returns the Part of the transposed matrix.
__host__ __device__ inline int64_t turned(int64_t part) { return part == kWhole ? kWhole : kLower + kUpper - part; }

__device__ __forceinline__ bool is_there(int64_t part, int64_t row, int64_t column) {
    return part == kWhole || (part == kLower ? column <= row : column >= row);
}

// Returns the first depth at which a row of an operand exists. It exists for depths [begin_of, end_of).
template <class Of>
__host__ __device__ __forceinline__ int64_t begin_of(const Of& of, int64_t row) {
    return of.part == kUpper ? row : 0;
}
template <class Of>
__host__ __device__ __forceinline__ int64_t end_of(const Of& of, int64_t row) {
    return of.part == kLower && row + 1 < of.depth ? row + 1 : of.depth;
}

using linear::ceil_div;
using linear::kMostBlocks;
using linear::on_256_bytes;

// y = alpha * a * b + beta * c in float32. Strides are in elements and may be 0. No size is 0.
struct Forward {
    const float* a;
    const float* b;
    const float* c;                      // or null; with kSparseA one value, not added, that is finite only if all of b is
    float* y;                            // [batch, m, n], contiguous
    void* workspace;                     // forward_workspace(args) bytes, 256-aligned
    int64_t batch, m, n, k;
    int64_t a_batch, a_row, a_depth;     // [batch, m, k]
    int64_t b_batch, b_depth, b_column;  // [batch, k, n]
    int64_t c_batch, c_row, c_column;    // [batch, m, n]
    int64_t precision;                   // value of linear::Precision or More
    int64_t a_part, b_part, y_part;      // values of Part
    double alpha, beta;
    cudaStream_t stream;
    int64_t device;
};

// Epilogue: what is added to a product, and its destination.
struct Outcome {
    const float* c;  // or null
    float* y;
    int64_t c_batch, c_row, c_column;
    float alpha, beta;
};

inline Outcome outcome_of(const Forward& args) {
    return {args.c, args.y, args.c_batch, args.c_row, args.c_column, static_cast<float>(args.alpha),
            static_cast<float>(args.beta)};
}

__device__ __forceinline__ float finished(const Outcome& out, float product, int64_t batch, int64_t row, int64_t column) {
    const float scaled = out.alpha * product;
    if (out.c == nullptr) return scaled;
    return fmaf(out.beta, __ldg(out.c + batch * out.c_batch + row * out.c_row + column * out.c_column), scaled);
}

}  // namespace kernelwright::matmul
