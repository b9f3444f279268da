// How the blocks of a team add up their sums: through global memory, or through the shared memory of a cluster.
//
// Through global memory a sum is its own flag. The cells of every (row, member) are set to a pattern that no sum has
// before the launch (cudaMemsetAsync, a node of a captured graph); a member writes its two sums once, and the others
// read until the pattern is gone. Nothing else is handed over, so nothing needs a fence, and no counter has to be put
// back between launches. One store and one round trip to L2: 1.5 to 2 us. It ends as long as all blocks of a team run
// at once: the launch is cooperative.
//
// Every member adds in the same order, so all get the same bits, and so does every run.
#pragma once

#include <math_constants.h>

#include "sm90_instructions.cuh"
#include "sums.cuh"

namespace kernelwright::group_norm::sm90 {

constexpr int kUnwritten = 0xff;  // each byte of a cell before the launch: a NaN that no arithmetic gives
constexpr int kMaxCluster = 16;

enum class Exchange { kGlobal, kCluster };

__device__ __forceinline__ double writable(double sum) { return isnan(sum) ? CUDART_NAN : sum; }

__device__ __forceinline__ double wait_for(const double* cell) {
    double value = load_relaxed(cell);
    while (__double_as_longlong(value) == -1ll) value = load_relaxed(cell);
    return value;
}

// By one warp of each member; the team's total, in each lane. `cells` are those of the row.
__device__ __forceinline__ Pair exchange_global(Pair mine, double* cells, int member, int members) {
    const int lane = threadIdx.x % kWarp;
    if (lane < 2) store_relaxed(cells + 2 * member + lane, writable(lane == 0 ? mine.a : mine.b));
    Pair total = {0.0, 0.0};
    for (int other = lane; other < members; other += kWarp) {
        total = total + Pair{wait_for(cells + 2 * other), wait_for(cells + 2 * other + 1)};
    }
    return warp_sum(total, kWarp);
}

// Two rounds' worth of cells: a fast member may be a round ahead of one that still reads.
struct ClusterCells {
    Pair of[2][kMaxCluster];
};

// By one warp of each member, before the cluster meets.
__device__ __forceinline__ void tell_cluster(Pair mine, ClusterCells& cells, int round, int member, int members) {
    const int lane = threadIdx.x % kWarp;
    if (lane >= members) return;
    store_in_cluster(&cells.of[round % 2][member].a, lane, mine.a);
    store_in_cluster(&cells.of[round % 2][member].b, lane, mine.b);
}

// After the cluster has met, by any thread.
__device__ __forceinline__ Pair total_of_cluster(const ClusterCells& cells, int round, int members) {
    Pair total = cells.of[round % 2][0];
    for (int other = 1; other < members; ++other) total = total + cells.of[round % 2][other];
    return total;
}

}  // namespace kernelwright::group_norm::sm90
