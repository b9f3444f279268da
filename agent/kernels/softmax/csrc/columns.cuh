// Softmax over a dimension other than the last: the columns of [outer, length, inner].
#pragma once

#include "call.cuh"

namespace kernelwright::softmax {

template <typename T>
__global__ void columns(const T* x, T* __restrict__ y, int64_t length, int64_t inner) {
    await_earlier();
    __shared__ Partition of_warp[kColumnWarps][kWarp];
    const Column here = column_here(length, inner);
    const Partition all = column_partition(x, here, length, inner, of_warp);
    if (!here.inside) return;
    const float level = level_of(all.max);
    const float factor = inverse(all);
    for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
        const int64_t at = here.base + i * inner;
        y[at] = from_float<T>(exp_for<T>(to_float(x[at]) - level) * factor);
    }
}

// Computes columns that several threads share, in registers with at most N elements per thread.
template <int N, typename T>
__global__ void __launch_bounds__(kWarp* kColumnWarps) held_columns(
    const T* x, T* __restrict__ y, int64_t length, int64_t inner) {
    await_earlier();
    __shared__ Partition of_warp[kColumnWarps][kWarp];
    const Column here = column_here(length, inner);
    const int left = here.inside ? int(length) - int(threadIdx.y) : 0, step = int(blockDim.y);
    const int64_t first = here.base + threadIdx.y * inner, apart = step * inner;
    float tile[N];
    #pragma unroll
    for (int i = 0; i < N; ++i) tile[i] = i * step < left ? to_float(x[first + i * apart]) : -INFINITY;
    const float max = tile_max(tile);
    const Partition all = column_merge({max, take_exponentials<T>(tile, level_of(max))}, of_warp);
    const float factor = expf(max - level_of(all.max)) * inverse(all);
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        if (i * step < left) y[first + i * apart] = from_float<T>(tile[i] * factor);
    }
}

// Computes whole columns. A thread holds V neighbouring columns of up to N elements in registers.
template <int N, typename T, int V>
__global__ void __launch_bounds__(kWholeColumnThreads) whole_columns(
    const T* x, T* __restrict__ y, WholeColumns columns) {
    await_earlier();
    const WholeColumn<T, V> here(columns, blockIdx.x);
    if (!here.is_there) return;
    Words<T, V> words[N];
    here.load(x, 0, columns.length, from_float<T>(-INFINITY), words);
    float tile[V][N], factor[V];
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        #pragma unroll
        for (int k = 0; k < V; ++k) tile[k][i] = to_float(words[i].at(k));
    }
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        const float max = tile_max(tile[k]);
        const float sum = take_exponentials<T>(tile[k], level_of(max));
        factor[k] = isinf(max) ? NAN : 1.0f / sum;  // calling `inverse` would take more registers
    }
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        Pack<T, V> pack;
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(tile[k][i] * factor[k]);
        if (i < columns.length) *here.template in_line<Pack<T, V>>(y, i) = pack;
    }
}

}  // namespace kernelwright::softmax
