// Threads that share a row: their sums over it, and the ring of prefetched rows in shared memory.
#pragma once

#include "async_copy.cuh"
#include "row_norm.cuh"

namespace kernelwright {

// Distribution of a row. A team is kTeam neighbouring lanes of a warp, or whole warps if kTeam is 0, with up to kPacks
// packs per thread. kBlocks blocks of kThreads must fit on an SM. kShifted: rows may have any alignment, such as those
// of odd length. A team's packs are 16-byte aligned, and the first and the last may extend beyond the row.
template <int kTeam_, int kPacks_, int kThreads_, int kBlocks_ = 1, bool kShifted_ = false>
struct Teams {
    static constexpr int kTeam = kTeam_, kPacks = kPacks_, kThreads = kThreads_, kBlocks = kBlocks_;
    static constexpr bool kShifted = kShifted_;

    static int team(int64_t packs) { return kTeam == 0 ? int(block_for(packs, kPacks)) : kTeam; }
};

struct RowSums {
    float plain, with_normal;  // sums of g and g * xhat, where g = dy * weight
};

// Sums over `lanes` neighbouring lanes; each of them gets the result.
template <int lanes, bool kCentred>
__device__ __forceinline__ RowSums lanes_sums(RowSums mine) {
    #pragma unroll
    for (int offset = lanes / 2; offset > 0; offset /= 2) {
        if (kCentred) mine.plain += __shfl_xor_sync(0xffffffff, mine.plain, offset);
        mine.with_normal += __shfl_xor_sync(0xffffffff, mine.with_normal, offset);
    }
    return mine;
}

// Sums over a team of whole warps, the first thread of which is thread `begin` of the block. Each thread of the team
// gets the result; all threads of the block must call it. `of_warp` is shared memory for kMaxWarps values. It must not
// be reused until all threads have passed the barrier of another call.
template <bool kCentred>
__device__ __forceinline__ RowSums warps_sums(RowSums mine, RowSums* of_warp, int begin, int threads) {
    mine = lanes_sums<kWarp, kCentred>(mine);
    const int warps = threads / kWarp, lane = int(threadIdx.x) % kWarp;
    if (warps == 1) return mine;
    if (lane == 0) of_warp[int(threadIdx.x) / kWarp] = mine;
    __syncthreads();
    return lanes_sums<kWarp, kCentred>(lane < warps ? of_warp[begin / kWarp + lane] : RowSums{0.0f, 0.0f});
}

constexpr int kLineBytes = 128;  // bytes of an L2 line

// Compiler barrier: forces later reads to reload shared memory instead of keeping values in registers that the sums
// need.
__device__ __forceinline__ void read_again() { asm volatile("" ::: "memory"); }

// A thread's packs of those rows that its team has in shared memory, `stages` rows at a time.
template <int kTensors, typename Team, typename T, int V>
struct RowRing {
    static constexpr int kPacks = Team::kPacks;
    Pack<T, V>* mine;
    int first, step, packs;  // a thread has packs `first`, first + step, ... below `packs` of a row
    int begin, end;          // first and last + 1 element of a shifted row, counted from its first pack

    __device__ __forceinline__ Pack<T, V>& at(int stage, int tensor, int u) const {
        return mine[stage * (kTensors * kPacks * Team::kThreads) + (tensor * kPacks + u) * Team::kThreads];
    }

    // Zeroes the thread's packs from number `begin` on, so that missing packs add nothing.
    __device__ __forceinline__ void clear(int stage, int begin) const {
        #pragma unroll
        for (int i = 0; i < kTensors * kPacks; ++i) {
            if (i % kPacks >= begin) at(stage, 0, i) = Pack<T, V>{};
        }
    }

    __device__ __forceinline__ void copy(int stage, int tensor, const Pack<T, V>* row) const {
        each_pack<kPacks>(first, step, packs, [&](int u, int place) {
            if constexpr (Team::kShifted) {  // zeroes the elements behind the row
                const int behind = max(0, (place + 1) * V - end);
                __pipeline_memcpy_async(&at(stage, tensor, u), row + place, sizeof(*row), behind * sizeof(T));
            } else {
                copy_async(&at(stage, tensor, u), row + place);
            }
        });
    }

    // Zeroes the elements in front of a shifted row in its first pack, once the row has arrived.
    __device__ __forceinline__ void cut(int stage) const {
        if constexpr (Team::kShifted) {
            #pragma unroll
            for (int i = 0; i < kTensors * V; ++i) {
                if (first == 0 && i % V < begin) at(stage, i / V, 0).v[i % V] = from_float<T>(0.0f);
            }
        }
    }
};

}  // namespace kernelwright
