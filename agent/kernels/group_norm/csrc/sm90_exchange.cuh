// Exchange of sums between the blocks of a team through global memory. A sum serves as its own flag.
//
// Before the launch a separate kernel sets the cells of every (row, member) to a pattern that no sum has. A member
// writes its two sums once, and the other members poll until the pattern is gone. No other data is passed, so that no
// fence is needed, and no counter must be reset between launches. The cost is one store and one round trip to L2: 1.5
// to 2 us. Termination needs all blocks of a team to be resident, hence the cooperative launch.
//
// Every member adds in the same order, so that all members get the same bits, in every run.
#pragma once

#include <math_constants.h>

#include "../../csrc/bulk_sm90.cuh"
#include "sums.cuh"

namespace kernelwright::group_norm::sm90 {

using namespace kernelwright::sm90;

constexpr unsigned kUnwritten = ~0u;  // each word of a cell before the launch: a NaN that arithmetic never produces
constexpr int kMembersOfLane = 5;     // cells that a lane reads, for up to 160 SMs
constexpr int kMaxMembers = kMembersOfLane * kWarp;

__device__ __forceinline__ double writable(double sum) { return isnan(sum) ? CUDART_NAN : sum; }

__device__ __forceinline__ bool written(double cell) { return __double_as_longlong(cell) != -1ll; }

// Publishes this member's sum; called by one warp.
__device__ __forceinline__ void publish(Pair mine, double* cell) {
    const int lane = threadIdx.x % kWarp;
    if (lane < 2) store_relaxed(cell + lane, writable(lane == 0 ? mine.a : mine.b));
}

// Returns the team's total to each lane of a warp. Loads all cells at once, and repeats until the last cell has been
// written.
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
