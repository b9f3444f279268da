// Definitions shared by cumulative sums of rows and of columns.
#pragma once

#include "../../csrc/launched.cuh"
#include "../../csrc/reduce.cuh"
#include "../../csrc/stored.cuh"

namespace kernelwright::cumsum {

constexpr int kTilePacks = 4;  // packs of a tile per thread
constexpr int kWarps = kReduceThreads / kWarp;

static_assert(kTilePacks * kWarps == kWarp, "a warp scans what the warps of a block have summed");

// Part `index` of the length that one block walks along, in packs for rows and in elements for columns.
struct Part {
    int64_t begin, end;
    unsigned index;
    bool reverse;

    __device__ __forceinline__ Part(int64_t length, int64_t part, unsigned index, bool reverse)
        : begin(index * part), end(min(length, begin + part)), index(index), reverse(reverse) {}
    __device__ __forceinline__ int64_t size() const { return end - begin; }
    __device__ __forceinline__ int64_t at(int64_t i) const { return reverse ? end - 1 - i : begin + i; }
    // Returns true if part `other` comes before this one in the direction of the sum.
    __device__ __forceinline__ bool follows(unsigned other) const { return reverse ? other > index : other < index; }
};

// Scans over lanes `step` apart: sets `own` to the exclusive sum and returns the inclusive sum.
__device__ __forceinline__ float scanned(float& own, int step, int width) {
    float all = own;
    const int lane = int(threadIdx.x) % width;
    for (int offset = step; offset < width; offset *= 2) {
        const float other = __shfl_up_sync(0xffffffff, all, offset, width);
        if (lane >= offset) all += other;
    }
    const float before = __shfl_up_sync(0xffffffff, all, step, width);
    own = lane >= step ? before : 0.0f;
    return all;
}

template <typename T, int V>
__device__ __forceinline__ Pack<T, V> reversed(const Pack<T, V>& pack) {
    Pack<T, V> other;
    #pragma unroll
    for (int k = 0; k < V; ++k) other.v[k] = pack.v[V - 1 - k];
    return other;
}

}  // namespace kernelwright::cumsum
