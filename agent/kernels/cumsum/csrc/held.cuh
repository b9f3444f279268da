// Cumulative sums of a length that the registers of a block, or of the blocks of a cluster, hold: one read and one write,
// and nothing is asked for while other parts wait.
#pragma once

#include "part.cuh"

#ifndef KW_PORTABLE_ONLY
#include "../../csrc/cluster_sm90.cuh"
#endif

namespace kernelwright::cumsum {

constexpr int kRowPacks = 8;      // of a row in a thread's registers
constexpr int kColumnPacks = 16;  // of columns, one below the other
constexpr int kHeldWidth = 8;     // packs side by side, so that loads are of 128 bytes

#ifndef KW_PORTABLE_ONLY
// What the blocks of a cluster that lie before this one have summed, `count` sums of each in `of_block`, to `before`.
__device__ __forceinline__ void take_cluster(const Part& mine, int parts, int count, const float* of_block, float* before) {
    sm90::cluster_arrive();
    sm90::cluster_wait();
    for (int i = threadIdx.x; i < count; i += int(blockDim.x)) {
        float sum = 0.0f;
        for (int other = 0; other < parts; ++other) {
            if (mine.follows(other)) sum += sm90::load_from_block(of_block + i, other);
        }
        before[i] = sum;
    }
    sm90::cluster_arrive();
    __syncthreads();
}
#endif

// Of up to the block's threads times kRowPacks packs of a row, those of a warp side by side.
template <typename T, int V>
__global__ void __launch_bounds__(kReduceThreads, 2) held_rows(
    const Pack<T, V>* x, Pack<T, V>* y, int64_t packs, int64_t part, int parts, bool reverse) {
    await_earlier();
    __shared__ float of_warp[kWarps];
    const Part mine(packs, part, int(blockIdx.x) % parts, reverse);
    const int64_t row = blockIdx.x / unsigned(parts);
    const int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp, warps = int(blockDim.x) / kWarp;
    const int first = warp * kWarp * kRowPacks + lane, left = int(mine.size()) - first;
    const int64_t at = row * packs + mine.at(first);
    const int step = reverse ? -kWarp : kWarp;
    Pack<T, V> held[kRowPacks];
    #pragma unroll
    for (int u = 0; u < kRowPacks; ++u) {
        if (u * kWarp < left) held[u] = x[at + u * step];
    }
    if (reverse) {
        #pragma unroll
        for (auto& pack : held) pack = reversed(pack);
    }
    keep_stored(held);
    float before[kRowPacks], all = 0.0f;
    #pragma unroll
    for (int u = 0; u < kRowPacks; ++u) {
        float sum = 0.0f;
        #pragma unroll
        for (int k = 0; k < V; ++k) sum += to_float(held[u].v[k]);
        before[u] = u * kWarp < left ? sum : 0.0f;
    }
    keep_stored(held);
    #pragma unroll
    for (int u = 0; u < kRowPacks; ++u) {
        const float layer = __shfl_sync(0xffffffff, scanned(before[u], 1, kWarp), kWarp - 1);
        before[u] += all;
        all += layer;
    }
    if (lane == 0) of_warp[warp] = all;
    __syncthreads();
    float above = lane < warps ? of_warp[lane] : 0.0f;
    [[maybe_unused]] const float sums = scanned(above, 1, kWarp);
    float carry = __shfl_sync(0xffffffff, above, warp);
#ifndef KW_PORTABLE_ONLY
    if (parts > 1) {
        __shared__ float of_block, of_others;
        if (threadIdx.x == kWarp - 1) of_block = sums;
        take_cluster(mine, parts, 1, &of_block, &of_others);
        carry += of_others;
    }
#endif
    #pragma unroll
    for (int u = 0; u < kRowPacks; ++u) {
        const float begin = before[u] + carry;
        float sum = 0.0f;
        Pack<T, V> pack;
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(begin + (sum += to_float(held[u].v[k])));
        if (reverse) pack = reversed(pack);
        if (u * kWarp < left) y[at + u * step] = pack;
    }
#ifndef KW_PORTABLE_ONLY
    if (parts > 1) sm90::cluster_wait();
#endif
}

// Of columns, `width` packs side by side, a power of two up to the warp; a thread takes kColumnPacks rows below each other.
template <typename T, int V>
__global__ void __launch_bounds__(kReduceThreads, 2) held_columns(
    const Pack<T, V>* x, Pack<T, V>* y, int64_t length, int64_t packs, int64_t part, int parts, int width, bool reverse) {
    await_earlier();
    __shared__ float of_warp[kWarps][kWarp][V];
    const unsigned groups = unsigned((packs + width - 1) / width), group = blockIdx.x / unsigned(parts);
    const int side = int(threadIdx.x) % width, warp = int(threadIdx.x) / kWarp;
    const int64_t outer = group / groups, column = group % groups * int64_t{width} + side;
    const Part mine(length, part, int(blockIdx.x) % parts, reverse);
    const int first = int(threadIdx.x) / width * kColumnPacks;
    const int left = column < packs ? int(mine.size()) - first : 0;
    x += outer * length * packs + column;
    y += outer * length * packs + column;
    Pack<T, V> held[kColumnPacks];
    #pragma unroll
    for (int u = 0; u < kColumnPacks; ++u) {
        if (u < left) held[u] = x[mine.at(first + u) * packs];
    }
    keep_stored(held);
    float before[V];
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        before[k] = 0.0f;
        #pragma unroll
        for (int u = 0; u < kColumnPacks; ++u) before[k] += u < left ? to_float(held[u].v[k]) : 0.0f;
    }
    keep_stored(held);
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        const float all = scanned(before[k], width, kWarp);
        if (int(threadIdx.x) % kWarp >= kWarp - width) of_warp[warp][side][k] = all;
    }
    __syncthreads();
#ifndef KW_PORTABLE_ONLY
    if (parts > 1) {
        __shared__ float of_block[kWarp][V], of_others[kWarp][V];
        for (int i = threadIdx.x; i < width * V; i += kReduceThreads) {
            float all = 0.0f;
            #pragma unroll
            for (int other = 0; other < kWarps; ++other) all += of_warp[other][i / V][i % V];
            of_block[i / V][i % V] = all;
        }
        take_cluster(mine, parts, width * V, &of_block[0][0], &of_others[0][0]);
        #pragma unroll
        for (int k = 0; k < V; ++k) before[k] += of_others[side][k];
    }
#endif
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        #pragma unroll
        for (int other = 0; other < kWarps; ++other) {
            if (other < warp) before[k] += of_warp[other][side][k];
        }
    }
    float sums[V] = {};
    #pragma unroll
    for (int u = 0; u < kColumnPacks; ++u) {
        Pack<T, V> pack;
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(before[k] + (sums[k] += to_float(held[u].v[k])));
        if (u < left) y[mine.at(first + u) * packs] = pack;
    }
#ifndef KW_PORTABLE_ONLY
    if (parts > 1) sm90::cluster_wait();
#endif
}

}  // namespace kernelwright::cumsum
