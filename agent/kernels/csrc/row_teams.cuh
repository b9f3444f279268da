// Threads that take a row together: what they add up over it, and the next rows on their way in shared memory.
#pragma once

#include "async_copy.cuh"
#include "row_norm.cuh"

namespace kernelwright {

// Who takes a row: kTeam neighbouring lanes of a warp, or where that is 0 whole warps, each thread up to kPacks packs.
// kBlocks of kThreads have to stand on an SM. kShifted: rows may begin anywhere between two packs, as those of an odd length
// do; a team's packs lie on 16 bytes, and the first and the last may reach over the row's ends.
template <int kTeam_, int kPacks_, int kThreads_, int kBlocks_ = 1, bool kShifted_ = false>
struct Teams {
    static constexpr int kTeam = kTeam_, kPacks = kPacks_, kThreads = kThreads_, kBlocks = kBlocks_;
    static constexpr bool kShifted = kShifted_;

    static int team(int64_t packs) { return kTeam == 0 ? int(block_for(packs, kPacks)) : kTeam; }
};

struct RowSums {
    float plain, with_normal;  // of g and g * xhat, g = dy * weight
};

// Over `lanes` neighbouring lanes, in each of them.
template <int lanes, bool kCentred>
__device__ __forceinline__ RowSums lanes_sums(RowSums mine) {
    #pragma unroll
    for (int offset = lanes / 2; offset > 0; offset /= 2) {
        if (kCentred) mine.plain += __shfl_xor_sync(0xffffffff, mine.plain, offset);
        mine.with_normal += __shfl_xor_sync(0xffffffff, mine.with_normal, offset);
    }
    return mine;
}

// Over a team of whole warps, in each of its threads, whose first is thread `begin` of the block; all threads of the block
// call it. `of_warp` is shared memory for kMaxWarps, which no other call uses until all have been here again.
template <bool kCentred>
__device__ __forceinline__ RowSums warps_sums(RowSums mine, RowSums* of_warp, int begin, int threads) {
    mine = lanes_sums<kWarp, kCentred>(mine);
    const int warps = threads / kWarp, lane = int(threadIdx.x) % kWarp;
    if (warps == 1) return mine;
    if (lane == 0) of_warp[int(threadIdx.x) / kWarp] = mine;
    __syncthreads();
    return lanes_sums<kWarp, kCentred>(lane < warps ? of_warp[begin / kWarp + lane] : RowSums{0.0f, 0.0f});
}

constexpr int kLineBytes = 128;  // of the L2 cache

// The compiler would keep what it has read of shared memory, in registers that the sums need.
__device__ __forceinline__ void read_again() { asm volatile("" ::: "memory"); }

// A thread's packs of the rows that its team has in shared memory.
template <int kTensors, typename Team, typename T, int V>
struct RowRing {
    static constexpr int kPacks = Team::kPacks;
    Pack<T, V>* mine;
    int first, step, packs;  // the thread's packs of a row: `first`, a step apart
    int begin, end;          // of a shifted row, elements from its first pack on

    __device__ __forceinline__ Pack<T, V>& at(int stage, int tensor, int u) const {
        return mine[stage * (kTensors * kPacks * Team::kThreads) + (tensor * kPacks + u) * Team::kThreads];
    }

    // What is not there adds nothing: zeros, from the thread's pack `begin` on.
    __device__ __forceinline__ void clear(int stage, int begin) const {
        #pragma unroll
        for (int i = 0; i < kTensors * kPacks; ++i) {
            if (i % kPacks >= begin) at(stage, 0, i) = Pack<T, V>{};
        }
    }

    __device__ __forceinline__ void copy(int stage, int tensor, const Pack<T, V>* row) const {
        each_pack<kPacks>(first, step, packs, [&](int u, int place) {
            if constexpr (Team::kShifted) {  // zeros for what lies behind the row
                const int behind = max(0, (place + 1) * V - end);
                __pipeline_memcpy_async(&at(stage, tensor, u), row + place, sizeof(*row), behind * sizeof(T));
            } else {
                copy_async(&at(stage, tensor, u), row + place);
            }
        });
    }

    // Once a shifted row is there: zeros for what lies before it in its first pack.
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
