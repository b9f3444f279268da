// The kernel that splits the rows of both operands (split_sm90.cuh), one block per padded row.
#pragma once

#include "../../csrc/launched.cuh"
#include "split_sm90.cuh"

namespace kernelwright::linear {

constexpr int kSplitThreads = 256;
constexpr int kSplitWarps = kSplitThreads / 32;

// A matrix of values [rows, k], possibly empty, and its packed destination.
struct Rows {
    const float* values;
    int64_t rows;
    bool by_fours;
    Packed packed;

    __host__ __device__ int64_t blocks() const { return ceil_div(rows, kTile) * kTile; }
};

inline Rows rows_of(const float* values, int64_t rows, int64_t k, const Packed& packed) {
    return {values, rows, by_fours(values, k), packed};
}

__device__ __forceinline__ float block_largest(float mine) {
    __shared__ float of_warp[kSplitWarps];
    for (int offset = 16; offset > 0; offset /= 2) mine = fmaxf(mine, __shfl_xor_sync(0xffffffffu, mine, offset));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    for (int warp = 0; warp < kSplitWarps; ++warp) mine = fmaxf(mine, of_warp[warp]);
    return mine;
}

// Adds up the counts of a block's threads. The total is valid in thread 0.
__device__ __forceinline__ Counts block_total(Counts mine) {
    __shared__ Counts of_warp[kSplitWarps];
    for (int offset = 16; offset > 0; offset /= 2) {
        mine.add({__shfl_xor_sync(0xffffffffu, mine.small, offset), __shfl_xor_sync(0xffffffffu, mine.values, offset)});
    }
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    mine = {0, 0};
    for (int warp = 0; warp < kSplitWarps; ++warp) mine.add(of_warp[warp]);
    return mine;
}

// Splits one row. With IS_WEIGHT all values are rounded stochastically.
template <bool IS_WEIGHT>
__device__ __forceinline__ void split_row(const Rows& of, int64_t row, int64_t k, int stages) {
    float largest = 0.0f;
    for (int64_t i = threadIdx.x * 4; i < k; i += kSplitThreads * 4) {
        const float4 v = four_of(of.values, of.rows, k, row, i, of.by_fours);
        largest = fmaxf(largest, fmaxf(fmaxf(finite_size(v.x), finite_size(v.y)),
                                       fmaxf(finite_size(v.z), finite_size(v.w))));
    }
    largest = block_largest(largest);
    const int exponent = largest > 0.0f ? 13 - ilogbf(largest) : 0;
    const Scale scale = {ldexpf(1.0f, exponent / 2), ldexpf(1.0f, exponent - exponent / 2)};
    const float least = ldexpf(1.0f, -2 - exponent);

    Counts counts = {0, 0};
    unsigned char* tile = of.packed.tiles + row / kTile * stages * kOperandBytes;
    for (int64_t i = threadIdx.x * kSplitValues; i < int64_t{stages} * kDepth; i += kSplitThreads * kSplitValues) {
        const float4 first = four_of(of.values, of.rows, k, row, i, of.by_fours);
        const float4 second = four_of(of.values, of.rows, k, row, i + 4, of.by_fours);
        const float v[kSplitValues] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
        Halves hi, lo;
        split_eight<IS_WEIGHT>(v, scale, static_cast<uint32_t>(row), static_cast<uint32_t>(i), hi, lo);
        unsigned char* to = tile + i / kDepth * kOperandBytes +
                            swizzled(static_cast<int>(row % kTile), static_cast<int>(i % kDepth) / kSplitValues);
        *reinterpret_cast<Halves*>(to) = hi;
        *reinterpret_cast<Halves*>(to + kHalfBytes) = lo;
        counts.add_eight(v, least);
    }
    counts = block_total(counts);
    if (threadIdx.x != 0) return;
    of.packed.exponents[row] = largest > 0.0f ? exponent : kNothing;
    of.packed.small[row] = counts.small;
    of.packed.values[row] = counts.values;
}

// Splits x's rows, then the weight's. Clears `zeroed` for the product unless it is null.
__global__ void __launch_bounds__(kSplitThreads) linear_split(const Rows x, const Rows weight, int64_t k, int stages, int* zeroed) {
    await_earlier();
    if (zeroed != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *zeroed = 0;
    if (blockIdx.x < x.blocks()) {
        split_row<false>(x, blockIdx.x, k, stages);
    } else {
        split_row<true>(weight, blockIdx.x - x.blocks(), k, stages);
    }
}

inline cudaError_t split(const Rows& x, const Rows& weight, int64_t k, int64_t stages, int* zeroed, cudaStream_t stream) {
    const int64_t blocks = x.blocks() + weight.blocks();
    if (blocks > kMostBlocks || stages > kMostBlocks) return cudaErrorInvalidValue;
    return launched(linear_split, static_cast<unsigned>(blocks), kSplitThreads, stream, x, weight, k, static_cast<int>(stages), zeroed);
}

}  // namespace kernelwright::linear
