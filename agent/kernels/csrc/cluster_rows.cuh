// Rows that a block takes, or the blocks of a cluster together, which GPUs of compute capability 9 have.
#pragma once

#include "ragged.cuh"
#ifndef KW_PORTABLE_ONLY
#include "cluster_sm90.cuh"
#endif

namespace kernelwright {

constexpr int64_t kMaxClusterRows = kMaxGrid / kMaxCluster;

#ifndef KW_PORTABLE_ONLY
// The threads of a row: those that lie side by side in x in all blocks of a cluster. A block that is launched without a
// cluster is one by itself.
struct Team {
    __device__ __forceinline__ static int64_t row() { return row_of(sm90::cluster_number()); }
    __device__ __forceinline__ static int64_t row_from_last() {
        return row_of(gridDim.x / blocks() - 1 - sm90::cluster_number());
    }
    __device__ __forceinline__ static int thread() { return int(sm90::cluster_rank() * blockDim.x + threadIdx.x); }
    __device__ __forceinline__ static int threads() { return int(blocks() * blockDim.x); }

    // Of what each has, the same in all; `of_warp` as for block_merge.
    __device__ __forceinline__ static Partition merged(Partition mine, Partition* of_warp) {
        __shared__ Partition of_block;
        const Partition here = block_merge(mine, of_warp);
        const unsigned lane = threadIdx.x % kWarp;
        if (blocks() == 1) return here;
        if (threadIdx.x == 0) of_block = here;
        sm90::cluster_arrive();
        sm90::cluster_wait();
        Partition one = {-INFINITY, 0.0f};
        if (lane < blocks()) {
            one = {sm90::load_from_block(&of_block.max, int(lane)), sm90::load_from_block(&of_block.sum, int(lane))};
        }
        sm90::cluster_arrive();
        return warp_merge(one);
    }

    __device__ __forceinline__ static float summed(float mine, float* of_warp) {
        __shared__ float of_block;
        const float here = block_reduce<Sum>(mine, of_warp);
        if (blocks() == 1) return here;
        if (threadIdx.x == 0) of_block = here;
        sm90::cluster_arrive();
        sm90::cluster_wait();
        float all = 0.0f;
        for (unsigned rank = 0; rank < blocks(); ++rank) all += sm90::load_from_block(&of_block, int(rank));
        sm90::cluster_arrive();
        return all;
    }

    // The last that a thread does, once after each of these: a block's shared memory stays until all have read it.
    __device__ __forceinline__ static void part() {
        if (blocks() > 1) sm90::cluster_wait();
    }

private:
    __device__ __forceinline__ static int64_t row_of(unsigned cluster) {
        return int64_t{cluster} * blockDim.y + threadIdx.y;
    }
    __device__ __forceinline__ static unsigned blocks() {
        unsigned blocks;
        asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(blocks));
        return blocks;
    }
};
#else
using Team = Block;
#endif

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

// For a kernel of teams, `blocks` in a cluster for each row.
template <typename... Parameters, typename... Given>
cudaError_t start_teams(
    void (*kernel)(Parameters...), int64_t blocks, int64_t rows, dim3 block, cudaStream_t stream, Given... given) {
    return launched_in_clusters(
        kernel, unsigned(blocks), unsigned(blocks) * rows_grid(rows, block), block, stream, given...);
}

}  // namespace kernelwright
