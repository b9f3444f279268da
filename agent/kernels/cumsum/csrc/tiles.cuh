// Cumulative sums of lengths that do not fit registers, and of lengths that are not whole packs.
//
// A block walks along a row or adjacent columns tile by tile and carries the sum; for many rows, some lanes of a block do so
// for each. The next tile is loaded before the present one is summed. `parts` holds the sums of all parts of a split length;
// a block handles one part.
#pragma once

#include "part.cuh"

namespace kernelwright::cumsum {

// Sums rows. `group` threads handle a row: a power of two up to 32, or the whole block.
template <typename T, int V>
__global__ void __launch_bounds__(kReduceThreads) along_rows(
    const Pack<T, V>* x, Pack<T, V>* __restrict__ y, const Partial<SumOf>* parts, int64_t rows,
    int64_t packs, int64_t part, int group, bool reverse) {
    await_earlier();
    __shared__ float of_warp[2][kWarp], of_parts[kMaxWarps];
    const int64_t row = blockIdx.x * int64_t{kReduceThreads / group} + int(threadIdx.x) / group;
    const int lane = int(threadIdx.x) % group, warp = int(threadIdx.x) / kWarp, width = min(group, kWarp);
    const Part mine(packs, part, blockIdx.y, reverse);
    const int64_t size = row < rows ? mine.size() : 0;
    float carry = 0.0f;
    if (parts != nullptr) {
        for (unsigned i = threadIdx.x; i < gridDim.y; i += kReduceThreads) {
            if (mine.follows(i)) carry += parts[row * gridDim.y + i].state;
        }
        carry = block_reduce<Sum>(carry, of_parts);
    }
    x += row * packs;
    y += row * packs;
    Pack<T, V> next[kTilePacks];
    const auto ask = [&](int64_t first) {
        #pragma unroll
        for (int u = 0; u < kTilePacks; ++u) {
            const int64_t i = first + u * group + lane;
            if (i < size) next[u] = x[mine.at(i)];
        }
    };
    ask(0);
    int buffer = 0;
    for (int64_t first = 0; first < mine.size(); first += kTilePacks * group, buffer ^= 1) {
        float values[kTilePacks][V], before[kTilePacks], layer[kTilePacks];
        #pragma unroll
        for (int u = 0; u < kTilePacks; ++u) {
            const bool inside = first + u * group + lane < size;
            float sum = 0.0f;
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                const float value = to_float(reverse ? next[u].v[V - 1 - k] : next[u].v[k]);
                values[u][k] = sum += inside ? value : 0.0f;
            }
            before[u] = sum;
        }
        ask(first + kTilePacks * group);
        #pragma unroll
        for (int u = 0; u < kTilePacks; ++u) {
            layer[u] = __shfl_sync(0xffffffff, scanned(before[u], 1, width), width - 1, width);
        }
        if (group > kWarp) {
            #pragma unroll
            for (int u = 0; u < kTilePacks; ++u) {
                if (lane % kWarp == 0) of_warp[buffer][u * kWarps + warp] = layer[u];
            }
            __syncthreads();
            float above = of_warp[buffer][threadIdx.x % kWarp];
            const float all = scanned(above, 1, kWarp);
            #pragma unroll
            for (int u = 0; u < kTilePacks; ++u) {
                before[u] += carry + __shfl_sync(0xffffffff, above, u * kWarps + warp);
            }
            carry += __shfl_sync(0xffffffff, all, kWarp - 1);
        } else {
            #pragma unroll
            for (int u = 0; u < kTilePacks; ++u) {
                before[u] += carry;
                carry += layer[u];
            }
        }
        #pragma unroll
        for (int u = 0; u < kTilePacks; ++u) {
            const int64_t i = first + u * group + lane;
            Pack<T, V> pack;
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                pack.v[k] = from_float<T>(before[u] + (reverse ? values[u][V - 1 - k] : values[u][k]));
            }
            if (i < size) y[mine.at(i)] = pack;
        }
    }
}

// Sums columns. A block is `width` packs of columns wide, a power of two up to 32. A thread handles consecutive rows of a
// tile.
template <typename T, int V>
__global__ void __launch_bounds__(kReduceThreads) along_columns(
    const Pack<T, V>* x, Pack<T, V>* __restrict__ y, const Partial<SumOf>* parts, int64_t length,
    int64_t packs, int64_t part, int width, bool reverse) {
    await_earlier();
    __shared__ float of_warp[2][kWarps][kWarp][V];
    const unsigned groups = unsigned((packs + width - 1) / width);
    const int64_t outer = blockIdx.x / groups;
    const int side = int(threadIdx.x) % width, warp = int(threadIdx.x) / kWarp;
    const int64_t column = blockIdx.x % groups * int64_t{width} + side;
    const int above = int(threadIdx.x) / width, height = kReduceThreads / width;
    const Part mine(length, part, blockIdx.y, reverse);
    const int64_t size = column < packs ? mine.size() : 0;
    float carry[V];
    #pragma unroll
    for (float& one : carry) one = 0.0f;
    if (parts != nullptr) {  // the threads of a column share the work of adding its parts
        for (unsigned i = above; column < packs && i < gridDim.y; i += height) {
            const auto* sums = parts + ((outer * gridDim.y + i) * packs + column) * V;
            #pragma unroll
            for (int k = 0; k < V; ++k) carry[k] += mine.follows(i) ? sums[k].state : 0.0f;
        }
        auto& of_parts = of_warp[1];  // the first tile uses buffer 0
        #pragma unroll
        for (float& one : carry) {
            for (int offset = width; offset < kWarp; offset *= 2) one += __shfl_xor_sync(0xffffffff, one, offset);
        }
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            if (threadIdx.x % kWarp < width) of_parts[warp][side][k] = carry[k];
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            carry[k] = 0.0f;
            #pragma unroll
            for (int other = 0; other < kWarps; ++other) carry[k] += of_parts[other][side][k];
        }
    }
    x += outer * length * packs + column;
    y += outer * length * packs + column;
    Pack<T, V> next[kTilePacks];
    const auto ask = [&](int64_t first) {
        #pragma unroll
        for (int u = 0; u < kTilePacks; ++u) {
            if (first + u < size) next[u] = x[mine.at(first + u) * packs];
        }
    };
    ask(above * kTilePacks);
    int buffer = 0;
    for (int64_t tile = 0; tile < mine.size(); tile += kTilePacks * height, buffer ^= 1) {
        const int64_t first = tile + above * kTilePacks;
        float values[kTilePacks][V], before[V];
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            float sum = 0.0f;
            #pragma unroll
            for (int u = 0; u < kTilePacks; ++u) {
                values[u][k] = sum += first + u < size ? to_float(next[u].v[k]) : 0.0f;
            }
            before[k] = sum;
        }
        ask(first + kTilePacks * height);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float all = scanned(before[k], width, kWarp);
            if (threadIdx.x % kWarp >= kWarp - width) of_warp[buffer][warp][side][k] = all;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            before[k] += carry[k];
            #pragma unroll
            for (int other = 0; other < kWarps; ++other) {
                const float sum = of_warp[buffer][other][side][k];
                if (other < warp) before[k] += sum;
                carry[k] += sum;
            }
        }
        #pragma unroll
        for (int u = 0; u < kTilePacks; ++u) {
            Pack<T, V> pack;
            #pragma unroll
            for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(before[k] + values[u][k]);
            if (first + u < size) y[mine.at(first + u) * packs] = pack;
        }
    }
}

}  // namespace kernelwright::cumsum
