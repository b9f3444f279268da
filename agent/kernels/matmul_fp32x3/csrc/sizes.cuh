// What both paths count with, and what the packaging hands over. Every field takes 8 bytes: Python packs a call in one go.
#pragma once

#include "../../linear_fp32x3/csrc/sizes.cuh"

namespace kernelwright::matmul {

// Beside linear::Precision: a fourth product, of what hi leaves of both operands; three bf16 of each value, split as they are read; float
// arithmetic that passes over zeros of a, which is whole as b is.
enum More : int64_t { kFp32x4 = 2, kBf16x6 = 3, kSparseA = 4 };

// Which values of a matrix there are: those on one side of the diagonal alone, the others are 0 and are not read.
enum Part : int64_t { kWhole = 0, kLower = 1, kUpper = 2 };

// Of the matrix seen transposed.
__host__ __device__ inline int64_t turned(int64_t part) { return part == kWhole ? kWhole : kLower + kUpper - part; }

__device__ __forceinline__ bool is_there(int64_t part, int64_t row, int64_t column) {
    return part == kWhole || (part == kLower ? column <= row : column >= row);
}

// The depths that a row of an operand has, [begin_of, end_of).
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

// y = alpha * a * b + beta * c, float32; every operand is named by steps of elements, which may be 0. No size is 0.
struct Forward {
    const float* a;
    const float* b;
    const float* c;                      // or null; with kSparseA one value that is not added, but finite where all of b is
    float* y;                            // [batch, m, n], contiguous
    void* workspace;                     // forward_workspace(args) bytes, 256-aligned
    int64_t batch, m, n, k;
    int64_t a_batch, a_row, a_depth;     // [batch, m, k]
    int64_t b_batch, b_depth, b_column;  // [batch, k, n]
    int64_t c_batch, c_row, c_column;    // [batch, m, n]
    int64_t precision;                   // linear::Precision
    int64_t a_part, b_part, y_part;      // Part
    double alpha, beta;
    cudaStream_t stream;
    int64_t device;
};

// What is added to a product, and where that goes.
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
