// What the threads of a row add up over it in a norm's forward: one sum, or a mean and the deviations from it.
#pragma once

#include "moments.cuh"

namespace kernelwright {

constexpr int kFewWarps = 8;

// The sum over neighbouring lanes, in each of them.
template <int lanes>
__device__ __forceinline__ float sum_over_lanes(float mine) {
    #pragma unroll
    for (int offset = lanes / 2; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffff, mine, offset);
    return mine;
}

// The sum over a block, in every thread of it. `of_warp` is shared memory for kMaxWarps values, aligned as float4, that
// no other sum uses. Every thread reads and adds up what few warps found: of few rows nothing hides five more shuffles.
__device__ __forceinline__ float block_sum(float mine, float* of_warp) {
    mine = sum_over_lanes<kWarp>(mine);
    const unsigned warps = blockDim.x / kWarp, thread = threadIdx.x;
    if (warps == 1) return mine;
    if (thread % kWarp == 0) of_warp[thread / kWarp] = mine;
    if (thread >= warps && thread < kFewWarps) of_warp[thread] = 0.0f;
    __syncthreads();
    if (warps <= kFewWarps) {
        const float4 a = reinterpret_cast<const float4*>(of_warp)[0], b = reinterpret_cast<const float4*>(of_warp)[1];
        return ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
    }
    return sum_over_lanes<kWarp>(thread % kWarp < warps ? of_warp[thread % kWarp] : 0.0f);
}

// What the threads of a warp take differences from, given what each has added up: of elements in float32 all of its own, for
// their mean, so that squares lose no digits; of 16-bit ones V of its first pack, and the first thread's mean is taken, which
// is there four shuffles earlier. Those squares lose less than two of their digits, where that pack is far from the others.
template <typename T, int V>
__device__ __forceinline__ float pivot_of_warp(float sum, int count) {
    if constexpr (sizeof(T) == sizeof(float)) return sum_over_lanes<kWarp>(sum) * __fdividef(1.0f, float(count));
    else return __shfl_sync(0xffffffff, sum, 0) * (1.0f / V);
}

// Mean and squared deviations of a row, the same in every thread of its block. Each thread has added up `sum` and `squares`
// of its elements' differences from `pivot`, which is one for a warp, whose threads have `count` elements together. Each
// warp finds its own moments, and behind one barrier those are merged: of few rows nothing hides a second. `of_warp` is
// shared memory for kMaxWarps, which nothing else uses.
__device__ __forceinline__ Moments block_moments(
    float sum, float squares, float pivot, int count, float share, float4* of_warp) {
    const int thread = int(threadIdx.x), lane = thread % kWarp, warps = int(blockDim.x) / kWarp;
    sum = sum_over_lanes<kWarp>(sum);
    squares = sum_over_lanes<kWarp>(squares);
    const float off = sum * __fdividef(1.0f, float(count));
    const Moments found = {float(count), pivot + off, squares - sum * off};
    if (warps == 1) return found;
    if (lane == 0) of_warp[thread / kWarp] = {found.count, found.mean, found.m2, 0.0f};
    if (thread >= warps && thread < kFewWarps) of_warp[thread] = {0.0f, 0.0f, 0.0f, 0.0f};
    __syncthreads();
    // About the mean of the first.
    const float about = of_warp[0].y;
    float first = 0.0f, second = 0.0f;
    const auto add = [&](const float4& one) {
        const float away = one.y - about, part = one.x * away;
        first += part;
        second += fmaf(part, away, one.z);
    };
    if (warps <= kFewWarps) {
        #pragma unroll
        for (int warp = 0; warp < kFewWarps; ++warp) add(of_warp[warp]);
    } else {
        if (lane < warps) add(of_warp[lane]);
        first = sum_over_lanes<kWarp>(first);
        second = sum_over_lanes<kWarp>(second);
    }
    const float away = first * share;
    return {1.0f / share, about + away, second - first * away};
}

}  // namespace kernelwright
