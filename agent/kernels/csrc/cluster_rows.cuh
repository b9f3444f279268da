// Rows that a block takes, or the blocks of a cluster together, which GPUs of compute capability 9 have.
#pragma once

#include "ragged.cuh"

namespace kernelwright {

constexpr int64_t kMaxClusterRows = kMaxGrid / kMaxCluster;

#ifndef KW_PORTABLE_ONLY
// The threads of a row: those that lie side by side in x in all blocks of a cluster. A block that is launched without a
// cluster is one by itself.
struct Team {
    __device__ __forceinline__ static int64_t row() { return row_of(number()); }
    __device__ __forceinline__ static int64_t row_from_last() { return row_of(gridDim.x / blocks() - 1 - number()); }
    __device__ __forceinline__ static int thread() { return int(rank() * blockDim.x + threadIdx.x); }
    __device__ __forceinline__ static int threads() { return int(blocks() * blockDim.x); }

    // Of what each has, the same in all; `of_warp` as for block_merge.
    __device__ __forceinline__ static Partition merged(Partition mine, Partition* of_warp) {
        __shared__ Partition of_block;
        const Partition here = block_merge(mine, of_warp);
        const unsigned lane = threadIdx.x % kWarp;
        if (blocks() == 1) return here;
        if (threadIdx.x == 0) of_block = here;
        meet();
        Partition one = {-INFINITY, 0.0f};
        if (lane < blocks()) one = {of_rank(&of_block.max, lane), of_rank(&of_block.sum, lane)};
        arrive();
        return warp_merge(one);
    }

    __device__ __forceinline__ static float summed(float mine, float* of_warp) {
        __shared__ float of_block;
        const float here = block_reduce<Sum>(mine, of_warp);
        if (blocks() == 1) return here;
        if (threadIdx.x == 0) of_block = here;
        meet();
        float all = 0.0f;
        for (unsigned rank = 0; rank < blocks(); ++rank) all += of_rank(&of_block, rank);
        arrive();
        return all;
    }

    // The last that a thread does, once after each of these: a block's shared memory stays until all have read it.
    __device__ __forceinline__ static void part() {
        if (blocks() > 1) wait();
    }

private:
    __device__ __forceinline__ static int64_t row_of(unsigned cluster) {
        return int64_t{cluster} * blockDim.y + threadIdx.y;
    }
    __device__ __forceinline__ static unsigned number() {
        unsigned number;
        asm("mov.u32 %0, %%clusterid.x;" : "=r"(number));
        return number;
    }
    __device__ __forceinline__ static unsigned rank() {
        unsigned rank;
        asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(rank));
        return rank;
    }
    __device__ __forceinline__ static unsigned blocks() {
        unsigned blocks;
        asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(blocks));
        return blocks;
    }
    __device__ __forceinline__ static void arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
    __device__ __forceinline__ static void wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
    __device__ __forceinline__ static void meet() {
        arrive();
        wait();
    }
    // What block `rank` of the cluster has in its shared memory.
    __device__ __forceinline__ static float of_rank(const float* value, unsigned rank) {
        uint32_t address;
        float found;
        asm("mapa.shared::cluster.u32 %0, %1, %2;"
            : "=r"(address)
            : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(value))), "r"(rank));
        asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(found) : "r"(address) : "memory");
        return found;
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
