// Distribution of rows over blocks, or over clusters of blocks that share a row (compute capability 9).
#pragma once

#include "ragged.cuh"
#ifndef KW_PORTABLE_ONLY
#include "bulk_sm90.cuh"
#include "cluster_sm90.cuh"
#endif

namespace kernelwright {

constexpr int64_t kWidestCluster = 16;  // blocks; a GPU may refuse clusters of more than kMaxCluster
constexpr int64_t kMaxClusterRows = kMaxGrid / kWidestCluster;

#ifndef KW_PORTABLE_ONLY
// Partial states of all warps of a cluster. Each block has a copy of all of them in its shared memory.
template <typename State>
struct Mailbox {
    alignas(2 * sizeof(uint64_t)) State of_warp[kWidestCluster * kMaxWarps];
    uint64_t all_came;
};

// The threads of a row: those side by side in x across all blocks of a cluster. A block launched without a cluster
// counts as a cluster of one. The blocks synchronise once, through the states that their warps send to every block. No
// block reads another block's memory, so that none has to wait before it exits.
struct Team {
    __device__ __forceinline__ static int64_t row() { return row_of(sm90::cluster_number()); }
    __device__ __forceinline__ static int64_t row_from_last() {
        return row_of(gridDim.x / blocks() - 1 - sm90::cluster_number());
    }
    __device__ __forceinline__ static int thread() { return int(sm90::cluster_rank() * blockDim.x + threadIdx.x); }
    __device__ __forceinline__ static int threads() { return int(blocks() * blockDim.x); }

    // Initialises the mailbox. Every thread of a kernel that calls `merged` calls this first. It depends on no earlier
    // kernel and may precede await_earlier.
    template <typename State>
    __device__ __forceinline__ static void meet() {
        if (blocks() == 1) return;
        if (threadIdx.x == 0) {
            uint64_t* const all_came = &mailbox<State>().all_came;
            sm90::barrier_init(all_came);
            sm90::barriers_made();
            sm90::barrier_expect(all_came, blocks() * warps() * unsigned(sizeof(State)));
        }
        sm90::cluster_begun();
    }

    // Merges the states of all threads; every thread gets the result. Called once per kernel. `of_warp` is shared
    // memory as for block_merge.
    template <typename State>
    __device__ __forceinline__ static State merged(State mine, State* of_warp) {
        if (blocks() == 1) return block_merge(mine, of_warp);
        Mailbox<State>& box = mailbox<State>();
        const unsigned lane = threadIdx.x % kWarp, sent = blocks() * warps();
        mine = warp_merge(mine);
        sm90::cluster_wait();  // every block has initialised its mailbox
        if (lane < blocks()) {
            const unsigned place = sm90::cluster_rank() * warps() + threadIdx.x / kWarp;
            sm90::send_to_block(&box.of_warp[place], int(lane), mine, &box.all_came);
        }
        sm90::barrier_wait(&box.all_came, 0);
        constexpr int kAtOnce = 4;
        State all = nothing_for(mine);
        for (unsigned first = lane; first < sent; first += kAtOnce * kWarp) {
            State some[kAtOnce + 1];
            #pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                some[i] = first + i * kWarp < sent ? box.of_warp[first + i * kWarp] : nothing_for(mine);
            }
            some[kAtOnce] = all;
            all = merge(some);
        }
        return warp_merge(all);
    }

private:
    template <typename State>
    __device__ __forceinline__ static Mailbox<State>& mailbox() {
        __shared__ Mailbox<State> box;
        return box;
    }
    __device__ __forceinline__ static int64_t row_of(unsigned cluster) {
        return int64_t{cluster} * blockDim.y + threadIdx.y;
    }
    __device__ __forceinline__ static unsigned warps() { return blockDim.x / kWarp; }
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

// Returns true if the rows are so few and so long that one block per row would leave SMs idle.
inline bool lack_blocks(int64_t rows, int64_t packs) { return rows <= kFewRows && packs > kBlockPacks; }

constexpr int64_t kFewestRows = 16;  // up to this many rows, clusters of the widest size fit on the GPU at once

// Distribution of rows. Each of few long rows gets a cluster, with as few threads as hold it at `each` packs per
// thread, since the fixed work per thread outweighs that of its packs. Any other row gets one block.
struct Spread {
    int64_t blocks = 1;
    unsigned threads = 0;
    bool holds_row = false;

    Spread(int64_t rows, int64_t packs, int64_t each, int64_t device) {
        if (!lack_blocks(rows, packs) || !has_clusters(device)) return;
        blocks = rows <= kFewestRows ? kWidestCluster : kMaxCluster;
        const int64_t here = packs_of_block(packs, blocks), most = kMaxCluster * kBlockPacks / blocks;
        threads = std::min(block_for(here, each), unsigned(most));
        holds_row = here <= each * threads;
    }
};

// Returns the blocks per row for many rows: up to `widest`, with up to `each` packs per thread. Returns 1 if one block
// per row does as well or if no cluster size fits the row.
inline int64_t cluster_for(int64_t rows, int64_t packs, int64_t each, int64_t widest, int64_t device) {
    const int64_t most = each * kBlockPacks;
    if (rows > kMaxClusterRows || packs > widest * most || packs <= most || !has_clusters(device)) return 1;
    int64_t blocks = 2;
    while (blocks * most < packs) blocks *= 2;
    return blocks;
}

// Launches a kernel that uses Team, with a cluster of `blocks` blocks per row. If the GPU refuses the widest clusters,
// launches half as many blocks of twice the threads.
template <typename... Parameters, typename... Given>
cudaError_t start_teams(
    void (*kernel)(Parameters...), int64_t blocks, int64_t rows, dim3 block, cudaStream_t stream, Given... given) {
#ifndef KW_PORTABLE_ONLY
    if (blocks > kMaxCluster) {
        cudaError_t error = cudaFuncSetAttribute(
            reinterpret_cast<const void*>(kernel), cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
        if (error != cudaSuccess) return error;
        error = launched_in_clusters(kernel, unsigned(blocks), unsigned(blocks * rows), block, stream, given...);
        if (error == cudaSuccess) return error;
        cudaGetLastError();
        blocks = kMaxCluster;
        block.x *= unsigned(kWidestCluster / kMaxCluster);
    }
#endif
    return launched_in_clusters(
        kernel, unsigned(blocks), unsigned(blocks) * rows_grid(rows, block), block, stream, given...);
}

}  // namespace kernelwright
