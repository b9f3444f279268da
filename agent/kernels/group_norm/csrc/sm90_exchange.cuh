// How the blocks of a team add up their sums: through global memory, where a sum is its own flag.
//
// The cells of every (row, member) are set to a pattern that no sum has by a kernel of its own, before the launch; a member
// writes its two sums once, and the others read until the pattern is gone. Nothing else is handed over, so nothing needs a
// fence, and no counter has to be put back between launches. One store and one round trip to L2: 1.5 to 2 us. It ends as long as all blocks of a team run at once: the launch is cooperative.
//
// Every member adds in the same order, so all get the same bits, and so does every run.
#pragma once

#include <math_constants.h>

#include "../../csrc/bulk_sm90.cuh"
#include "sums.cuh"

namespace kernelwright::group_norm::sm90 {

using namespace kernelwright::sm90;

constexpr unsigned kUnwritten = ~0u;  // each word of a cell before the launch: a NaN that no arithmetic gives
constexpr int kMembersOfLane = 5;     // of 160 SMs
constexpr int kMaxMembers = kMembersOfLane * kWarp;

__device__ __forceinline__ double writable(double sum) { return isnan(sum) ? CUDART_NAN : sum; }

__device__ __forceinline__ bool written(double cell) { return __double_as_longlong(cell) != -1ll; }

// By one warp: this member's sum, where the others look for it.
__device__ __forceinline__ void publish(Pair mine, double* cell) {
    const int lane = threadIdx.x % kWarp;
    if (lane < 2) store_relaxed(cell + lane, writable(lane == 0 ? mine.a : mine.b));
}

// By one warp: the team's total, in each lane. All cells are asked at once, and again until the last has come.
__device__ __forceinline__ Pair collect(const double* cells, int members) {
    Pair sums[kMembersOfLane];
    for (bool complete = false; !complete;) {
        complete = true;
        #pragma unroll
        for (int i = 0; i < kMembersOfLane; ++i) {
            const int member = i * kWarp + static_cast<int>(threadIdx.x) % kWarp;
            sums[i] = {0.0, 0.0};
            if (member < members) sums[i] = {load_relaxed(cells + 2 * member), load_relaxed(cells + 2 * member + 1)};
        }
        #pragma unroll
        for (const Pair& sum : sums) complete = complete && written(sum.a) && written(sum.b);
    }
    __syncwarp();
    Pair total = sums[0];
    #pragma unroll
    for (int i = 1; i < kMembersOfLane; ++i) total = total + sums[i];
    return warp_sum(total, kWarp);
}

}  // namespace kernelwright::group_norm::sm90
