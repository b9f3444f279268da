// Rows that follow each other in memory without a gap, wherever they begin and end.
//
// Unless the length is a multiple of V elements (kWhole), up to V - 1 of them lie before the first whole pack of a row
// and as many behind the last: its ends, of which a thread takes one. Of short rows a warp takes several.
#pragma once

#include "partition.cuh"

namespace kernelwright {

struct Row {
    int64_t first;  // element of its first whole pack
    int64_t packs;
    int before, behind;  // elements at its ends
};

template <bool kWhole, int V>
__device__ __forceinline__ Row row_at(int64_t row, int64_t length) {
    const int64_t start = row * length;
    if (kWhole) return {start, length / V, 0, 0};
    const int before = int(min(-start & (V - 1), length));
    return {start + before, (length - before) / V, before, int(length - before) & (V - 1)};
}

// The element at the row's ends that is `thread`'s, or -1.
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

template <bool kWhole, int V>
constexpr int kEnds = kWhole ? 0 : 1;  // that a thread takes

// Packs stay as they are stored: without this the compiler keeps the floats that it made of them.
template <typename T, int V, int P>
__device__ __forceinline__ void keep_stored(Pack<T, V> (&packs)[P]) {
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(T) < sizeof(float) && V % 2 == 0) {
        #pragma unroll
        for (auto& pack : packs) {
            #pragma unroll
            for (int word = 0; word < V / 2; ++word) asm volatile("" : "+r"(reinterpret_cast<unsigned*>(pack.v)[word]));
        }
    }
#endif
}

// The threads of a row: a power of two of a warp's lanes, or a block. Of a block's rows each has its own y.
struct Block {
    __device__ __forceinline__ static int64_t row() { return row_here(); }
    __device__ __forceinline__ static int thread() { return int(threadIdx.x); }
    __device__ __forceinline__ static int threads() { return int(blockDim.x); }

    // Of what each thread has, the same in all; `of_warp` as for block_merge.
    __device__ __forceinline__ static Partition merged(Partition mine, Partition* of_warp) {
        if (blockDim.x >= kWarp) return block_merge(mine, of_warp);
        float max = mine.max;
        for (int offset = int(blockDim.x) / 2; offset > 0; offset /= 2) {
            max = fmaxf(max, __shfl_xor_sync(lanes(), max, offset));
        }
        return {max, summed(mine.sum * expf(mine.max - level_of(max)), nullptr)};
    }

    __device__ __forceinline__ static float summed(float mine, float* of_warp) {
        if (blockDim.x >= kWarp) return block_reduce<Sum>(mine, of_warp);
        for (int offset = int(blockDim.x) / 2; offset > 0; offset /= 2) {
            mine += __shfl_xor_sync(lanes(), mine, offset);
        }
        return mine;
    }

    // Those of a row for which a warp has more than enough: the others of the warp may have none.
    __device__ __forceinline__ static unsigned lanes() {
        const unsigned first = threadIdx.y * blockDim.x % kWarp;
        return ((1u << blockDim.x) - 1) << first;
    }

    // The last that a thread does.
    __device__ __forceinline__ static void part() {}
};

constexpr int64_t kBlockHeld = kWarp * kMaxWarps;  // packs that a block takes with one a thread
// Threads that the GPUs of today run at once, about. Of fewer packs a thread takes one, so that all are under way.
constexpr int64_t kThreadsAtOnce = 1 << 18;
constexpr int kRowThreads = 256;  // of a block of short rows

// Of rows of up to a warp's packs: as many threads for each as it has packs, or ends, and a block of them.
template <bool kWhole, int V>
dim3 lanes_block(int64_t packs) {
    unsigned lanes = kWhole ? 1 : 2 * V;
    while (lanes < packs && lanes < kWarp) lanes *= 2;
    return dim3(lanes, kRowThreads / lanes);
}

}  // namespace kernelwright
