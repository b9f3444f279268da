// Cumulative sums of short rows held in registers: the whole row is loaded before the first addition.
#pragma once

#include "../../csrc/launched.cuh"
#include "part.cuh"

namespace kernelwright::cumsum {

constexpr int kShortPacks = 2;                        // packs of a row per lane
constexpr int64_t kLongestShort = kShortPacks * kWarp;  // maximum packs of a short row

// Sums short rows. `width` consecutive lanes handle a row: a power of two up to 32.
template <typename T, int V>
__global__ void __launch_bounds__(kReduceThreads) short_rows(
    const Pack<T, V>* x, Pack<T, V>* __restrict__ y, int64_t rows, int packs, int width, bool reverse) {
    await_earlier();
    const int64_t row = blockIdx.x * int64_t{kReduceThreads / width} + int(threadIdx.x) / width;
    const int lane = int(threadIdx.x) % width, left = row < rows ? packs - lane : 0;
    const int64_t at = row * packs + (reverse ? packs - 1 - lane : lane);
    const int step = reverse ? -width : width;
    Pack<T, V> held[kShortPacks];
    #pragma unroll
    for (int u = 0; u < kShortPacks; ++u) {
        if (u * width < left) held[u] = x[at + u * step];
    }
    float carry = 0.0f;
    #pragma unroll
    for (int u = 0; u < kShortPacks; ++u) {
        const bool is_there = u * width < left;
        const Pack<T, V> pack = reverse ? reversed(held[u]) : held[u];
        float sums[V], sum = 0.0f;
        #pragma unroll
        for (int k = 0; k < V; ++k) sums[k] = sum += is_there ? to_float(pack.v[k]) : 0.0f;
        const float all = __shfl_sync(0xffffffff, scanned(sum, 1, width), width - 1, width), before = carry + sum;
        carry += all;
        Pack<T, V> made;
        #pragma unroll
        for (int k = 0; k < V; ++k) made.v[k] = from_float<T>(before + sums[k]);
        if (reverse) made = reversed(made);
        if (is_there) y[at + u * step] = made;
    }
}

// Returns the lanes per row: one per pack if the packs are a power of two, else one per two packs, which leaves fewer
// lanes idle.
inline int short_width(int64_t packs) {
    return power_for(power_for(packs) == packs ? packs : (packs + 1) / 2);
}

template <typename T, int V>
cudaError_t launch_short(const Pack<T, V>* x, Pack<T, V>* y, int64_t rows, int64_t packs, bool reverse, cudaStream_t stream) {
    const int width = short_width(packs);
    const int64_t blocks = divided_up(rows, kReduceThreads / width);
    if (blocks > kMaxGrid) return cudaErrorInvalidValue;
    return launched(
        short_rows<T, V>, unsigned(blocks), kReduceThreads, stream, x, y, rows, int(packs), width, reverse);
}

}  // namespace kernelwright::cumsum
