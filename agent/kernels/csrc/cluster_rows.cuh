// Rows that the blocks of a cluster share, for GPUs of compute capability 9.
#pragma once

#include "cluster_sm90.cuh"
#include "ragged.cuh"

namespace kernelwright {

constexpr int64_t kMaxClusterRows = 65535;  // of a grid in y
constexpr int64_t kFewRows = 32;            // so few leave most SMs without a block

// The threads of a row: those of a cluster's blocks, which stand side by side in x, and the rows in y.
struct Cluster {
    __device__ __forceinline__ static int64_t row() { return blockIdx.y; }
    __device__ __forceinline__ static int thread() { return int(blockIdx.x * blockDim.x + threadIdx.x); }
    __device__ __forceinline__ static int threads() { return int(gridDim.x * blockDim.x); }

    __device__ __forceinline__ static Partition merged(Partition mine, Partition* of_warp) {
        __shared__ Partition of_block;
        const Partition here = block_merge(mine, of_warp);
        if (threadIdx.x == 0) of_block = here;
        sm90::cluster_arrive();
        sm90::cluster_wait();
        const unsigned lane = threadIdx.x % kWarp;
        Partition of_lane = {-INFINITY, 0.0f};
        if (lane < gridDim.x) {
            of_lane = {sm90::load_from_block(&of_block.max, int(lane)), sm90::load_from_block(&of_block.sum, int(lane))};
        }
        const Partition all = warp_merge(of_lane);
        sm90::cluster_arrive();
        return all;
    }

    __device__ __forceinline__ static float summed(float mine, float* of_warp) {
        __shared__ float of_block;
        const float here = block_reduce<Sum>(mine, of_warp);
        if (threadIdx.x == 0) of_block = here;
        sm90::cluster_arrive();
        sm90::cluster_wait();
        float all = 0.0f;
        for (int rank = 0; rank < int(gridDim.x); ++rank) all += sm90::load_from_block(&of_block, rank);
        sm90::cluster_arrive();
        return all;
    }

    // Once after each of these: a block's shared memory stays until all have read it.
    __device__ __forceinline__ static void part() { sm90::cluster_wait(); }
};

inline int64_t packs_of_block(int64_t packs, int64_t blocks) { return (packs + blocks - 1) / blocks; }

// Whether blocks of their own for so few long rows leave SMs without one.
inline bool lack_blocks(int64_t rows, int64_t packs) { return rows <= kFewRows && packs > kBlockPacks; }

// Blocks for a row, up to `widest`, each of whose threads holds up to `each` packs: 1 where a block of its own does as
// well, or where no cluster takes the row.
inline int64_t cluster_for(int64_t rows, int64_t packs, int64_t each, int64_t widest, int64_t device) {
    const int64_t most = each * kBlockPacks;
    const bool are_few = lack_blocks(rows, packs);
    if (are_few) widest = kMaxCluster;
    if (rows > kMaxClusterRows || packs > widest * most || (!are_few && packs <= most)) return 1;
    if (!has_clusters(device)) return 1;
    int64_t blocks = are_few ? kMaxCluster : 2;
    while (blocks * most < packs) blocks *= 2;
    return blocks;
}

template <typename... Parameters, typename... Given>
cudaError_t start_clusters(
    void (*kernel)(Parameters...), int64_t blocks, int64_t rows, unsigned threads, cudaStream_t stream,
    Given... given) {
    const dim3 grid = dim3(unsigned(blocks), unsigned(rows));
    return launched_in_clusters(kernel, unsigned(blocks), grid, threads, stream, given...);
}

}  // namespace kernelwright
