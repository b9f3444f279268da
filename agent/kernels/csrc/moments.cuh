// Mean and squared deviations of the parts of a row, merged without losing the digits of a large common offset.
#pragma once

#include "block.cuh"

namespace kernelwright {

struct Moments {
    float count;
    float mean;
    float m2;  // sum of squared deviations from the mean
};

// Chan, Golub, LeVeque: "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
__device__ __forceinline__ Moments merge(Moments a, Moments b) {
    const float count = a.count + b.count;
    if (count == 0.0f) return a;
    const float share = b.count / count;
    const float delta = b.mean - a.mean;
    return {count, a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.count * share};
}

__device__ __forceinline__ Moments warp_merge(Moments mine) {
    #pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        Moments other;
        other.count = __shfl_xor_sync(0xffffffff, mine.count, offset);
        other.mean = __shfl_xor_sync(0xffffffff, mine.mean, offset);
        other.m2 = __shfl_xor_sync(0xffffffff, mine.m2, offset);
        mine = merge(mine, other);
    }
    return mine;
}

__device__ __forceinline__ Moments block_merge(Moments mine, Moments* of_warp) {
    mine = warp_merge(mine);
    const int warps = int(blockDim.x) / kWarp;
    if (warps == 1) return mine;
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
    __syncthreads();
    const int lane = int(threadIdx.x) % kWarp;
    return warp_merge(lane < warps ? of_warp[lane] : Moments{0.0f, 0.0f, 0.0f});
}

}  // namespace kernelwright
