// A matrix of float as two of fp16, for the tensor cores: how it is packed, and the kernel that does it.
//
// A row is scaled by a power of two so that its largest finite value lies in [2^13, 2^14), and split: hi = fp16(v),
// lo = fp16(v - hi). What is small beside its row's largest value loses digits only where fp16 has no more (2^-24
// absolute, 2^-38 of the largest), so nothing has to be scaled again.
//
// An infinity or NaN goes into lo, beside a hi of 1 with its sign. The products of hi and lo then give what float's would:
// lo meets the other operand's hi alone, which is 0 where that operand is 0 (or below 2^-39 of its row's largest value)
// and has its sign elsewhere.
//
// Packed is as the products want it: [tile of 128 rows][64 of K][hi, lo] of 16 KB each, swizzled, 0 past the rows and
// past K. One bulk copy of 32 KB then brings a tile, and no tensor map is needed. Behind the tiles stands each row's
// exponent: packed values are 2^exponent times the row's.
#pragma once

#include <cuda_fp16.h>

#include "../../csrc/matrix_sm90.cuh"
#include "sizes.cuh"

namespace kernelwright::linear {

using namespace kernelwright::matrix;

constexpr int kTile = 128;                     // rows of an operand that a block multiplies
constexpr int kDepth = 64;                     // of K in one stage
constexpr int kHalfBytes = kTile * kRowBytes;  // hi or lo of one operand
constexpr int kOperandBytes = 2 * kHalfBytes;
constexpr int kSplitThreads = 256;
constexpr int kSplitValues = 8;                // of a thread at a time: 16 bytes of hi, 16 of lo

struct Packed {
    unsigned char* tiles;
    int* exponents;
};

inline int64_t padded_rows(int64_t rows) { return ceil_div(rows, kTile) * kTile; }

// `promote`: a multiple of so many stages of K.
inline int64_t stages_of(int64_t k, int promote) { return ceil_div(k, kDepth * promote) * promote; }

inline int64_t tiles_bytes(int64_t rows, int64_t stages) { return padded_rows(rows) * stages * kDepth * 4; }

inline int64_t packed_bytes(int64_t rows, int64_t stages) {
    return on_256_bytes(tiles_bytes(rows, stages) + padded_rows(rows) * int64_t{sizeof(int)});
}

inline Packed packed_at(const void* memory, int64_t rows, int64_t stages) {
    auto* tiles = static_cast<unsigned char*>(const_cast<void*>(memory));
    return {tiles, reinterpret_cast<int*>(tiles + tiles_bytes(rows, stages))};
}

__device__ __forceinline__ float block_largest(float mine) {
    __shared__ float of_warp[kSplitThreads / 32];
    for (int offset = 16; offset > 0; offset /= 2) mine = fmaxf(mine, __shfl_xor_sync(0xffffffffu, mine, offset));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    for (int warp = 0; warp < kSplitThreads / 32; ++warp) mine = fmaxf(mine, of_warp[warp]);
    return mine;
}

__device__ __forceinline__ float finite_size(float v) { return isfinite(v) ? fabsf(v) : 0.0f; }

struct alignas(16) Halves {
    __half v[kSplitValues];
};

// 2^exponent is no float for the rows of the smallest values: two factors whose product it is.
struct Scale {
    float first;
    float second;
};

__device__ __forceinline__ void split_one(float v, const Scale& scale, __half& hi, __half& lo) {
    const float scaled = v * scale.first * scale.second;
    const bool finite = isfinite(v);
    hi = __float2half_rn(finite ? scaled : copysignf(1.0f, v));
    lo = __float2half_rn(finite ? scaled - __half2float(hi) : v);
}

__device__ __forceinline__ void split_four(const float4& four, const Scale& scale, __half* hi, __half* lo) {
    split_one(four.x, scale, hi[0], lo[0]);
    split_one(four.y, scale, hi[1], lo[1]);
    split_one(four.z, scale, hi[2], lo[2]);
    split_one(four.w, scale, hi[3], lo[3]);
}

// A block for each of the padded rows of values [rows, k].
__global__ void __launch_bounds__(kSplitThreads) split_rows(const float* values, int64_t rows, int64_t k, int stages,
                                                            bool by_fours, Packed packed) {
    const int64_t row = blockIdx.x;
    float largest = 0.0f;
    for (int64_t i = threadIdx.x * 4; i < k; i += kSplitThreads * 4) {
        const float4 v = four_of(values, rows, k, row, i, by_fours);
        largest = fmaxf(largest, fmaxf(fmaxf(finite_size(v.x), finite_size(v.y)),
                                       fmaxf(finite_size(v.z), finite_size(v.w))));
    }
    largest = block_largest(largest);
    const int exponent = largest > 0.0f ? 13 - ilogbf(largest) : 0;
    const Scale scale = {ldexpf(1.0f, exponent / 2), ldexpf(1.0f, exponent - exponent / 2)};
    if (threadIdx.x == 0) packed.exponents[row] = exponent;

    unsigned char* tile = packed.tiles + row / kTile * stages * kOperandBytes;
    for (int64_t i = threadIdx.x * kSplitValues; i < int64_t{stages} * kDepth; i += kSplitThreads * kSplitValues) {
        Halves hi;
        Halves lo;
        split_four(four_of(values, rows, k, row, i, by_fours), scale, hi.v, lo.v);
        split_four(four_of(values, rows, k, row, i + 4, by_fours), scale, hi.v + 4, lo.v + 4);
        unsigned char* to = tile + i / kDepth * kOperandBytes +
                            swizzled(static_cast<int>(row % kTile), static_cast<int>(i % kDepth) / kSplitValues);
        *reinterpret_cast<Halves*>(to) = hi;
        *reinterpret_cast<Halves*>(to + kHalfBytes) = lo;
    }
}

inline cudaError_t split(const float* values, int64_t rows, int64_t k, int64_t stages, const Packed& packed,
                         cudaStream_t stream) {
    if (padded_rows(rows) > kMostBlocks || stages > kMostBlocks) return cudaErrorInvalidValue;
    split_rows<<<static_cast<unsigned>(padded_rows(rows)), kSplitThreads, 0, stream>>>(
        values, rows, k, static_cast<int>(stages), by_fours(values, k), packed);
    return cudaGetLastError();
}

}  // namespace kernelwright::linear
