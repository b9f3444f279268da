// Sums that lose no digits, over threads in an order that never changes.
//
// A thread adds up a short run of values in float, about one of the values themselves; runs are added in double. The
// shift K is one of the run's n values, so (K - mean)^2 <= n * variance of the run, and what cancellation costs is
// bounded by n units in the last place, whatever offset or outlier the data has. Double sums about zero lose
// (mean / deviation)^2 * 1e-16, which is nothing for data that float can hold.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../../csrc/element.cuh"

namespace kernelwright::group_norm {

constexpr int kMaxThreads = 1024;

struct Pair {
    double a;
    double b;
};

__device__ __forceinline__ Pair operator+(Pair p, Pair q) { return {p.a + q.a, p.b + q.b}; }

// Up to a few dozen values of one thread.
struct Run {
    float shift;
    float sum;
    float squares;
    int count;

    __device__ __forceinline__ void start(float value) {
        shift = value;
        sum = squares = 0.0f;
        count = 0;
    }
    __device__ __forceinline__ void add(float value) {
        const float deviation = value - shift;
        sum += deviation;
        squares = fmaf(deviation, deviation, squares);
        ++count;
    }
    // Sum and sum of squares about zero.
    __device__ __forceinline__ Pair total() const {
        if (count == 0) return {0.0, 0.0};
        const double k = shift;
        const double offset = count * k;
        return {sum + offset, squares + k * (2.0 * sum + offset)};
    }
};

struct Moments {
    float mean;
    float rest;  // the mean is mean + rest: at an offset of 1e3 float alone is 3e-5 off
    float rstd;
};

// `share` is 1 / the number of values. A variance beyond float is infinite, as in torch; NaN stays NaN.
__device__ __forceinline__ Moments moments_of(Pair total, double share, double eps) {
    const double mean = total.a * share;
    double variance = total.b * share - mean * mean;
    if (variance < 0.0) variance = 0.0;
    Moments moments;
    moments.mean = static_cast<float>(mean);
    moments.rest = isinf(moments.mean) ? 0.0f : static_cast<float>(mean - moments.mean);
    moments.rstd = rsqrtf(static_cast<float>(variance) + static_cast<float>(eps));
    return moments;
}

__device__ __forceinline__ Pair warp_sum(Pair mine, int width) {
    for (int offset = width / 2; offset > 0; offset /= 2) {
        mine.a += __shfl_xor_sync(0xffffffffu, mine.a, offset);
        mine.b += __shfl_xor_sync(0xffffffffu, mine.b, offset);
    }
    return mine;
}

// Over `width` lanes, a power of two of at least 2: db in the lower half of them, ds in the upper.
__device__ __forceinline__ float halves_sum(float db, float ds, int width) {
    const bool lower = (static_cast<int>(threadIdx.x) & width / 2) == 0;
    float mine = (lower ? db : ds) + __shfl_xor_sync(0xffffffffu, lower ? ds : db, width / 2);
    for (int offset = width / 4; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, offset);
    return mine;
}

// The sum over the `team` (a power of two) consecutive threads that this one belongs to, in each of them. Every thread
// of the block calls it; blocks are whole warps.
__device__ __forceinline__ Pair team_sum(Pair mine, int team) {
    __shared__ Pair of_warp[kMaxThreads / kWarp];
    mine = warp_sum(mine, team < kWarp ? team : kWarp);
    if (team <= kWarp) return mine;
    __syncthreads();
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
    __syncthreads();
    const int warps = team / kWarp;
    const int first = threadIdx.x / team * warps;
    Pair total = of_warp[first];
    for (int warp = 1; warp < warps; ++warp) total = total + of_warp[first + warp];
    return total;
}

// The sums over the threads of a row, x of the block, in each of them; `of_warp` is for no other sum of the kernel.
template <int N>
__device__ __forceinline__ void row_sums(float (&mine)[N], float (*of_warp)[N]) {
    #pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        #pragma unroll
        for (float& sum : mine) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    }
    const int warps = blockDim.x / kWarp;
    if (warps == 1) return;
    if (threadIdx.x % kWarp == 0) {
        #pragma unroll
        for (int i = 0; i < N; ++i) of_warp[threadIdx.x / kWarp][i] = mine[i];
    }
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < N; ++i) mine[i] = 0.0f;
    #pragma unroll 4  // cold code is what small calls wait for
    for (int warp = 0; warp < warps; ++warp) {
        #pragma unroll
        for (int i = 0; i < N; ++i) mine[i] += of_warp[warp][i];
    }
}

}  // namespace kernelwright::group_norm
