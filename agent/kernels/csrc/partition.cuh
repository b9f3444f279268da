// The maximum of some elements and the sum of exp(x - maximum) over them, found in one pass.
//
// The online softmax: Milakov and Gimelshein, arXiv 1805.02867. Tensors are [outer, length, inner], contiguous;
// what is reduced is `length`. inner == 1: a block takes a row. Otherwise a warp lies across 32 neighbouring
// columns, so that every load is coalesced, and the warps of a block share the length.
#pragma once

#include <cmath>

#include "block.cuh"

namespace kernelwright {

constexpr int kTile = 4;          // packs that a thread has in flight
constexpr int kColumnWarps = 8;

struct Partition {
    float max;
    float sum;
};

// exp(value - max), also where both are infinite and the difference would be NaN: 0 for -inf, 1 for inf.
__device__ __forceinline__ float exp_below(float value, float max) {
    if (value == -INFINITY) return 0.0f;
    return value == max ? 1.0f : expf(value - max);
}

// fmaxf passes over NaN, which then reaches the sum.
__device__ __forceinline__ Partition merge(Partition a, Partition b) {
    const float max = fmaxf(a.max, b.max);
    return {max, a.sum * exp_below(a.max, max) + b.sum * exp_below(b.max, max)};
}

__device__ __forceinline__ Partition warp_merge(Partition mine) {
    #pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        Partition other;
        other.max = __shfl_xor_sync(0xffffffff, mine.max, offset);
        other.sum = __shfl_xor_sync(0xffffffff, mine.sum, offset);
        mine = merge(mine, other);
    }
    return mine;
}

// The same in every thread; `of_warp` is shared memory for kMaxWarps.
__device__ __forceinline__ Partition block_merge(Partition mine, Partition* of_warp) {
    mine = warp_merge(mine);
    const int warps = int(blockDim.x) / kWarp;
    if (warps == 1) return mine;
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
    __syncthreads();
    const int lane = int(threadIdx.x) % kWarp;
    return warp_merge(lane < warps ? of_warp[lane] : Partition{-INFINITY, 0.0f});
}

template <typename T, int V>
__device__ __forceinline__ Partition partition_of_tile(const Pack<T, V>* tile, int packs) {
    Partition part = {-INFINITY, 0.0f};
    #pragma unroll
    for (int u = 0; u < kTile; ++u) {
        if (u < packs) {
            for (int k = 0; k < V; ++k) part.max = fmaxf(part.max, to_float(tile[u].v[k]));
        }
    }
    #pragma unroll
    for (int u = 0; u < kTile; ++u) {
        if (u < packs) {
            for (int k = 0; k < V; ++k) part.sum += exp_below(to_float(tile[u].v[k]), part.max);
        }
    }
    return part;
}

// One thread's share: packs begin, begin + step, ... below end, where a pack is `stride` packs from the next.
template <typename T, int V>
__device__ __forceinline__ Partition partition(
    const Pack<T, V>* x, int64_t begin, int64_t end, int64_t step, int64_t stride) {
    Partition total = {-INFINITY, 0.0f};
    for (int64_t i = begin; i < end; i += kTile * step) {
        Pack<T, V> tile[kTile];
        int packs = 0;
        #pragma unroll
        for (int u = 0; u < kTile; ++u) {
            const int64_t at = i + u * step;
            if (at < end) {
                tile[u] = x[at * stride];
                ++packs;
            }
        }
        total = merge(total, partition_of_tile(tile, packs));
    }
    return total;
}

// Where this thread of a column kernel works; blocks of x are [outer][groups of 32 columns].
struct Column {
    int64_t base;  // of its first element
    bool inside;
};

__device__ __forceinline__ Column column_here(int64_t length, int64_t inner) {
    const int64_t groups = (inner + kWarp - 1) / kWarp;
    const int64_t column = blockIdx.x % groups * kWarp + threadIdx.x;
    return {blockIdx.x / groups * length * inner + column, column < inner};
}

// The partition of this thread's column, in every thread of it that is inside.
template <typename T>
__device__ __forceinline__ Partition column_partition(
    const T* x, Column here, int64_t length, int64_t inner, Partition (*of_warp)[kWarp]) {
    Partition mine = {-INFINITY, 0.0f};
    if (here.inside) {
        const auto* top = reinterpret_cast<const Pack<T, 1>*>(x) + here.base;
        mine = partition<T, 1>(top, threadIdx.y, length, blockDim.y, inner);
    }
    of_warp[threadIdx.y][threadIdx.x] = mine;
    __syncthreads();
    Partition all = of_warp[0][threadIdx.x];
    for (int warp = 1; warp < int(blockDim.y); ++warp) all = merge(all, of_warp[warp][threadIdx.x]);
    return all;
}

inline int64_t column_blocks(int64_t outer, int64_t inner) { return outer * ((inner + kWarp - 1) / kWarp); }

inline dim3 column_block(int64_t length) {
    return dim3(kWarp, unsigned(std::min<int64_t>(length, kColumnWarps)));
}

}  // namespace kernelwright
