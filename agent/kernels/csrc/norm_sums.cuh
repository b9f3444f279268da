// Sums over the threads of a row in a norm's forward: one sum, or the mean and the deviations from it.
#pragma once

#include "moments.cuh"

namespace kernelwright {

constexpr int kFewWarps = 8;

// Sums over neighbouring lanes; each of them gets the result.
template <int lanes>
__device__ __forceinline__ float sum_over_lanes(float mine) {
    #pragma unroll
    for (int offset = lanes / 2; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffff, mine, offset);
    return mine;
}

// Sums over the block; every thread gets the result. `of_warp` is shared memory for kMaxWarps values, aligned as
// float4, that no other sum uses. With few warps every thread adds up all partial sums, which saves the latency of five
// shuffles.
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

// Returns the value from which a warp's threads take differences, given each thread's sum. For float32 that is the mean
// of all elements of the warp, so that squares lose no digits. For 16-bit types it is the mean of the first thread's
// first pack (V elements), which saves four shuffles. The squares then lose less than two digits if that pack is far
// from the warp's other packs.
template <typename T, int V>
__device__ __forceinline__ float pivot_of_warp(float sum, int count) {
    if constexpr (sizeof(T) == sizeof(float)) return sum_over_lanes<kWarp>(sum) * __fdividef(1.0f, float(count));
    else return __shfl_sync(0xffffffff, sum, 0) * (1.0f / V);
}

// Returns mean and squared deviations of a row to every thread of its block. `sum` and `squares` are over the
// differences of the thread's elements from `pivot`. Pivot and `count`, the number of elements, are common to a warp.
// The warps' moments are merged behind a single barrier: with few rows no other work hides a second barrier. `of_warp`
// is shared memory for kMaxWarps values that no other sum uses.
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
    // Merges the means relative to that of the first warp, so that a large common offset costs few digits.
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
