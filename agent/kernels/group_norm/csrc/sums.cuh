// Sums without cancellation, in a fixed order over the threads.
//
// A thread sums a short run of values in float, relative to one of them; runs are summed in double. The shift K is one
// of the run's n values, so that (K - mean)^2 <= n * variance of the run. Cancellation therefore costs at most n ulp,
// for data of any offset and with any outlier. Double sums about zero lose (mean / deviation)^2 * 1e-16, which is
// negligible for data in float.
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

// Running sums of up to a few dozen values of one thread.
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
    // Returns the sum of the values and the sum of their squares, without a shift.
    __device__ __forceinline__ Pair total() const {
        if (count == 0) return {0.0, 0.0};
        const double k = shift;
        const double offset = count * k;
        return {sum + offset, squares + k * (2.0 * sum + offset)};
    }
};

struct Moments {
    float mean;
    float rest;  // the mean is mean + rest: at an offset of 1e3 the float alone has an error of 3e-5
    float rstd;
};

// Returns mean and rstd of values whose sums are `total`. `share` is 1 / the number of values. A variance beyond float
// is infinite, as in torch. NaN propagates.
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

// Sums over `width` lanes, a power of two of at least 2. The lower half of the lanes gets the sum of db, the upper half
// that of ds.
__device__ __forceinline__ float halves_sum(float db, float ds, int width) {
    const bool lower = (static_cast<int>(threadIdx.x) & width / 2) == 0;
    float mine = (lower ? db : ds) + __shfl_xor_sync(0xffffffffu, lower ? ds : db, width / 2);
    for (int offset = width / 4; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, offset);
    return mine;
}

// Sums over the `team` (a power of two) consecutive threads that include this one; each of them gets the result. Every
// thread of the block must call it, and blocks are whole warps.
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

// Each half of a warp sums one component of a pair, which takes half as many shuffles.
constexpr int kHalf = kWarp / 2;

__device__ __forceinline__ int half_of_lane() { return threadIdx.x % kWarp / kHalf; }

__device__ __forceinline__ double half_warp_sum(double mine) {
    for (int offset = kHalf / 2; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, offset);
    return mine;
}

// Sums over the warp: the lanes of the lower half get the sum of `a`, those of the upper half that of `b`.
__device__ __forceinline__ double sum_by_halves(Pair mine) {
    const bool is_lower = half_of_lane() == 0;
    const double other = __shfl_xor_sync(0xffffffffu, is_lower ? mine.b : mine.a, kHalf);
    return half_warp_sum((is_lower ? mine.a : mine.b) + other);
}

// Returns the values of both halves of the warp to each lane.
__device__ __forceinline__ Pair pair_of_halves(double of_half) {
    return {__shfl_sync(0xffffffffu, of_half, 0), __shfl_sync(0xffffffffu, of_half, kHalf)};
}

// Sums the first `count` entries of each half; every lane gets both sums.
__device__ __forceinline__ Pair sum_of_places(const double* of_half, int count) {
    double total = 0.0;
    #pragma unroll 2
    for (int i = threadIdx.x % kHalf; i < count; i += kHalf) total += of_half[i];
    return pair_of_halves(half_warp_sum(total));
}

// Sums over the threads of a row (x of the block); each of them gets the result. No other sum of the kernel may use
// `of_warp`.
template <int WARPS>
__device__ __forceinline__ Pair row_sum(Pair mine, double (*of_warp)[WARPS]) {
    const double sum = sum_by_halves(mine);
    const int warps = blockDim.x / kWarp;
    if (warps == 1) return pair_of_halves(sum);
    if (threadIdx.x % kHalf == 0) of_warp[half_of_lane()][threadIdx.x / kWarp] = sum;
    __syncthreads();
    return sum_of_places(of_warp[half_of_lane()], warps);
}

}  // namespace kernelwright::group_norm
