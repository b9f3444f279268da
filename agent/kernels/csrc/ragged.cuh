// Contiguous rows of any length, hence of any alignment.
//
// Unless the length is a multiple of V (kWhole), a row has up to V - 1 elements before its first whole pack and after
// its last one. They are the row's ends; a thread handles one of them.
#pragma once

#include "launched.cuh"
#include "partition.cuh"

namespace kernelwright {

struct Row {
    int64_t first;  // offset of the row's first whole pack, in elements
    int64_t packs;
    int before, behind;  // elements before its first and after its last whole pack
};

template <bool kWhole, int V>
__device__ __forceinline__ Row row_at(int64_t row, int64_t length) {
    const int64_t start = row * length;
    if (kWhole) return {start, length / V, 0, 0};
    const int before = int(min(-start & (V - 1), length));
    return {start + before, (length - before) / V, before, int(length - before) & (V - 1)};
}

// Returns the offset of the element at the row's ends that `thread` handles, or -1.
template <bool kWhole, int V>
__device__ __forceinline__ int64_t end_at(const Row& row, int thread) {
    if (kWhole) return -1;
    if (thread < row.before) return row.first - row.before + thread;
    return thread >= V && thread < V + row.behind ? row.first + row.packs * V + thread - V : -1;
}

template <typename T>
__device__ __forceinline__ float end_value(const T* x, int64_t at) {
    return at < 0 ? -INFINITY : to_float(x[at]);
}

template <bool kWhole>
constexpr int kEnds = kWhole ? 0 : 1;  // end elements per thread

// The threads that share a row: those of a block that are side by side in x, at least a warp.
struct Block {
    __device__ __forceinline__ static int64_t row() { return row_here(); }
    __device__ __forceinline__ static int64_t row_from_last() {
        return int64_t{block_from_last()} * blockDim.y + threadIdx.y;
    }
    __device__ __forceinline__ static int thread() { return int(threadIdx.x); }
    __device__ __forceinline__ static int threads() { return int(blockDim.x); }

    // Does nothing: only the threads of a cluster have to meet before `merged`.
    template <typename State>
    __device__ __forceinline__ static void meet() {}

    // Merges the states of all threads; each of them gets the result. `of_warp` is shared memory as for block_merge.
    template <typename State>
    __device__ __forceinline__ static State merged(State mine, State* of_warp) {
        return block_merge(mine, of_warp);
    }
};

constexpr int64_t kBlockPacks = kWarp * kMaxWarps;  // packs of a row if each thread of the largest block has one

constexpr int64_t kFewRows = 32;  // up to this many rows, most SMs have no block
constexpr int64_t kSharing = 1024;  // blocks of kSharingThreads that are resident at once
constexpr unsigned kSharingThreads = 256;

// Returns true if the GPU runs enough threads at once for each to have a pack or two. More packs per thread would then
// leave SMs idle.
inline bool are_few(int64_t rows, int64_t packs) { return rows * packs <= 1 << 18; }

struct SharedRows {
    dim3 grid, block;
};

// Returns the launch shape for kernels whose threads are independent, so that blocks may share a row: they are stacked
// in y. A thread handles up to `each` packs if there are enough for all SMs.
inline SharedRows shared_rows(int64_t rows, int64_t packs, int64_t each) {
    const int64_t blocks = std::min(kSharing / rows, (packs + kSharingThreads - 1) / kSharingThreads);
    if (rows <= kFewRows && blocks > 1) return {dim3(unsigned(rows), unsigned(blocks)), kSharingThreads};
    const dim3 block = rows_block(block_for(packs, are_few(rows, packs) ? 1 : each));
    return {rows_grid(rows, block), block};
}

// Returns the number of packs that a thread handles at a time, up to `most`.
inline int64_t packs_at_once(int64_t rows, int64_t packs, int64_t most) {
    if (rows * packs <= 1 << 16 && packs <= kBlockPacks) return 1;
    return are_few(rows, packs) && packs <= 2 * kBlockPacks ? 2 : most;
}

}  // namespace kernelwright
