// Arguments and sizes shared by both paths. Every field takes 8 bytes, since Python packs the struct in one call.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright::linear {

enum Precision : int64_t { kFp32x3 = 0, kIeee = 1 };

// y = x * weight^T + bias, all float32 and contiguous, aligned to an element. No size is 0.
struct Forward {
    const float* x;       // [m, k]
    const float* weight;  // [n, k]
    const float* bias;    // [n], or null
    const void* packed;   // the weight split by `split`, or null to split it in this call
    float* y;             // [m, n]
    void* workspace;      // forward_workspace(args) bytes, 256-aligned
    int64_t m, n, k;
    int64_t precision;
    cudaStream_t stream;
    int64_t device;
};

// Splits a matrix [rows, k] into `packed`, packed_bytes(args) bytes, 256-aligned.
struct Split {
    const float* values;
    void* packed;
    int64_t rows, k;
    cudaStream_t stream;
    int64_t device;
};

constexpr int64_t kMostBlocks = 0x7fffffff;

__host__ __device__ inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline int64_t on_256_bytes(int64_t bytes) { return ceil_div(bytes, 256) * 256; }

inline bool by_fours(const float* values, int64_t length) {
    return length % 4 == 0 && reinterpret_cast<uintptr_t>(values) % 16 == 0;
}

// Returns four adjacent values along K of one row of values [rows, k]; 0 past the end.
__device__ __forceinline__ float4 four_of(const float* values, int64_t rows, int64_t k, int64_t row, int64_t column,
                                          bool by_fours) {
    float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
    if (row >= rows || column >= k) return four;
    const float* from = values + row * k + column;
    if (by_fours) return *reinterpret_cast<const float4*>(from);
    four.x = from[0];
    if (column + 1 < k) four.y = from[1];
    if (column + 2 < k) four.z = from[2];
    if (column + 3 < k) four.w = from[3];
    return four;
}

}  // namespace kernelwright::linear
