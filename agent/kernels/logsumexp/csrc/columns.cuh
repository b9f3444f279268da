// logsumexp over a dimension other than the last: columns, forward and backward.
#pragma once

#include "../../csrc/whole_columns.cuh"
#include "call.cuh"

namespace kernelwright::logsumexp {

// From kManyColumns columns on, one thread per column keeps the SMs busy. A thread handles up to kManyLength elements.
constexpr int64_t kManyColumns = 65536;
constexpr int64_t kManyLength = 256;
constexpr int kLines = 8;  // lines that a thread has in flight
constexpr int kWholeColumnThreads = 256;  // threads of a block

template <typename T>
__global__ void columns(
    const T* x, T* __restrict__ y, float* __restrict__ exact, int64_t length, int64_t inner) {
    await_earlier();
    __shared__ Partition of_warp[kColumnWarps][kWarp];
    const Column here = column_here(length, inner);
    const Partition all = column_partition(x, here, length, inner, of_warp);
    if (!here.inside || threadIdx.y != 0) return;
    const int64_t groups = (inner + kWarp - 1) / kWarp;
    const int64_t at = blockIdx.x / groups * inner + blockIdx.x % groups * kWarp + threadIdx.x;
    y[at] = from_float<T>(result_of(all));
    if (exact != nullptr) exact[at] = result_of(all);
}

// Computes whole columns. A thread handles V neighbouring columns, kLines lines at a time.
template <typename T, int V>
__global__ void __launch_bounds__(kWholeColumnThreads) whole_columns(
    const T* x, T* __restrict__ y, float* __restrict__ exact, WholeColumns columns, bool streams) {
    await_earlier();
    const WholeColumn<T, V> here(columns, blockIdx.x);
    if (!here.is_there) return;
    Partition all[V];
    #pragma unroll
    for (Partition& one : all) one = {-INFINITY, 0.0f};
    #pragma unroll 1
    for (int line = 0; line < columns.length; line += kLines) {
        Words<T, V> words[kLines];
        here.load(x, line, columns.length, from_float<T>(-INFINITY), words, Streamed(streams));
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            float tile[kLines];
            #pragma unroll
            for (int i = 0; i < kLines; ++i) tile[i] = to_float(words[i].at(k));
            all[k] = add_tile<T>(all[k], tile);
        }
    }
    Pack<T, V> results;
    Pack<float, V> unrounded;
    #pragma unroll
    for (int k = 0; k < V; ++k) results.v[k] = from_float<T>(unrounded.v[k] = result_of(all[k]));
    reinterpret_cast<Pack<T, V>*>(y)[here.number] = results;
    if (exact != nullptr) reinterpret_cast<Pack<float, V>*>(exact)[here.number] = unrounded;
}

template <typename T>
__global__ void backward_columns(
    const T* dy, const T* x, const float* exact, T* __restrict__ dx, int64_t length, int64_t inner) {
    await_earlier();
    const unsigned block = block_from_last();
    const Column here = column_here(length, inner, block);
    if (!here.inside) return;
    const int64_t groups = (inner + kWarp - 1) / kWarp;
    const int64_t of_column = block / groups * inner + block % groups * kWarp + threadIdx.x;
    const float scale = to_float(dy[of_column]);
    const float result = exact[of_column];
    for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
        const int64_t at = here.base + i * inner;
        dx[at] = from_float<T>(scale * exp_for<T>(to_float(x[at]) - result));
    }
}

// Computes dx of whole columns. A thread handles V neighbouring columns.
template <typename T, int V>
__global__ void __launch_bounds__(kWholeColumnThreads) backward_whole_columns(
    const T* dy, const T* x, const float* exact, T* __restrict__ dx, WholeColumns columns) {
    await_earlier();
    const WholeColumn<T, V> here(columns, block_from_last());
    if (!here.is_there) return;
    const auto scale = reinterpret_cast<const Pack<T, V>*>(dy)[here.number];
    const auto result = reinterpret_cast<const Pack<float, V>*>(exact)[here.number];
    #pragma unroll 1
    for (int line = 0; line < columns.length; line += kLines) {
        Words<T, V> words[kLines];
        here.load(x, line, columns.length, T{}, words);
        #pragma unroll
        for (int i = 0; i < kLines; ++i) {
            Pack<T, V> slopes;
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                const float share = exp_for<T>(to_float(words[i].at(k)) - result.v[k]);
                slopes.v[k] = from_float<T>(to_float(scale.v[k]) * share);
            }
            if (line + i < columns.length) *here.template in_line<Pack<T, V>>(dx, line + i) = slopes;
        }
    }
}

template <typename Arguments>
bool are_whole_columns(const Arguments& args) {
    return args.outer * args.inner >= kManyColumns && args.length <= kManyLength &&
           are_narrow_columns(args.outer, args.inner);
}

template <typename T>
cudaError_t launch_columns(const Forward& args) {
    const auto* x = static_cast<const T*>(args.x);
    auto* y = static_cast<T*>(args.y);
    if (!are_whole_columns(args)) {
        return launched(
            columns<T>, unsigned(column_blocks(args.outer, args.inner)), column_block(args.length), args.stream, x, y,
            args.exact, args.length, args.inner);
    }
    const bool are_aligned = aligned(x) && aligned(y) && aligned(args.exact);
    return by_beside<T>(args.outer, args.length, args.inner, are_aligned, [&](auto beside, const WholeColumns& columns) {
        return launched(
            whole_columns<T, beside>, columns.blocks(kWholeColumnThreads), kWholeColumnThreads, args.stream, x, y, args.exact, columns,
            streams<T>(args));
    });
}

template <typename T>
cudaError_t launch_columns(const Backward& args) {
    const auto* dy = static_cast<const T*>(args.dy);
    const auto* x = static_cast<const T*>(args.x);
    auto* dx = static_cast<T*>(args.dx);
    if (!are_whole_columns(args)) {
        return launched(
            backward_columns<T>, unsigned(column_blocks(args.outer, args.inner)), column_block(args.length),
            args.stream, dy, x, args.exact, dx, args.length, args.inner);
    }
    const bool are_aligned = aligned(dy) && aligned(x) && aligned(args.exact) && aligned(dx);
    return by_beside<T>(args.outer, args.length, args.inner, are_aligned, [&](auto beside, const WholeColumns& columns) {
        return launched(
            backward_whole_columns<T, beside>, columns.blocks(kWholeColumnThreads), kWholeColumnThreads, args.stream, dy, x, args.exact,
            dx, columns);
    });
}

}  // namespace kernelwright::logsumexp
