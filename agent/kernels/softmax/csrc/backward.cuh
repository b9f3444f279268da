// Softmax of [outer, length, inner] over length, backward, from the result instead of the input.
#pragma once

#include "forward.cuh"

namespace kernelwright::softmax {

// Arguments of dx = (dy - sum(dy * y)) * y.
struct Backward {
    const void* dy;
    const void* y;
    void* dx;
    int64_t outer, length, inner;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kBackwardShort = 16;  // elements of each of two short rows in a lane's registers
constexpr int kBackwardPacks = 4;   // packs of each of two rows in a thread's registers
constexpr int kBackwardColumn = 8;  // elements of each of two columns in a thread's registers

template <typename T, int V>
__device__ __forceinline__ float product(const Pack<T, V>& dy, const Pack<T, V>& y) {
    float sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < V; ++k) sum += to_float(dy.v[k]) * to_float(y.v[k]);
    return sum;
}

template <typename T, int V>
__device__ __forceinline__ Pack<T, V> gradient(const Pack<T, V>& dy, const Pack<T, V>& y, float sum) {
    Pack<T, V> dx;
    #pragma unroll
    for (int k = 0; k < V; ++k) dx.v[k] = from_float<T>((to_float(dy.v[k]) - sum) * to_float(y.v[k]));
    return dx;
}

template <bool kWhole, int L, int P, typename T, int V>
__global__ void __launch_bounds__(kLanesThreads, kWhole && P * V == kBackwardShort ? 6 : 0) backward_short_rows(
    const T* dy, const T* y, T* __restrict__ dx, int64_t rows, int length) {
    const ShortShare<kWhole, L, P, V> share(rows, length, block_from_last());
    if (is_at_once()) share.bring_near(dy);
    await_earlier();
    float of_dy[share.kSize], of_y[share.kSize];
    share.load(dy, 0.0f, of_dy);
    share.load(y, 0.0f, of_y);
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < share.kSize; ++i) sum += of_dy[i] * of_y[i];
    sum = lanes_sum<L>(sum);
    share.store(dx, [&](int i) { return (of_dy[i] - sum) * of_y[i]; });
}

// Computes dx by rows. The first P packs of each thread stay in registers; with kRest, the remaining packs of a row are
// read again.
template <bool kWhole, typename Team, bool kRest, int P, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) backward_rows(
    const T* dy, const T* y, T* __restrict__ dx, int64_t rows, int64_t length) {
    Team::template meet<float>();
    __shared__ float of_warp[kMaxWarps];
    const int64_t index = Team::row_from_last();
    if (index >= rows) return;
    const int thread = Team::thread(), step = Team::threads();
    const Row row = row_at<kWhole, V>(index, length);
    const auto* of_dy = reinterpret_cast<const Pack<T, V>*>(dy + row.first);
    const auto* of_y = reinterpret_cast<const Pack<T, V>*>(y + row.first);
    auto* of_dx = reinterpret_cast<Pack<T, V>*>(dx + row.first);
    const int64_t end = end_at<kWhole, V>(row, thread);
    const int packs = kRest ? int(min(row.packs, int64_t{P} * step)) : int(row.packs);
    if (is_at_once()) {
        #pragma unroll
        for (int u = 0; u < P; ++u) {
            if (thread + u * step < packs) bring_near(of_dy + thread + u * step);
        }
    }
    await_earlier();
    Pack<T, V> dy_tile[P], y_tile[P];
    Pack<T, 1> dy_end, y_end;
    #pragma unroll
    for (int u = 0; u < P; ++u) {  // all loads are issued before the first use
        if (thread + u * step < packs) {
            dy_tile[u] = of_dy[thread + u * step];
            y_tile[u] = of_y[thread + u * step];
        }
    }
    float sum = 0.0f;
    if (end >= 0) {
        dy_end.v[0] = dy[end];
        y_end.v[0] = y[end];
        sum = product(dy_end, y_end);
    }
    #pragma unroll
    for (int u = 0; u < P; ++u) {
        if (thread + u * step < packs) sum += product(dy_tile[u], y_tile[u]);
    }
    const int64_t rest = thread + int64_t{P} * step;
    for (int64_t at = rest; kRest && at < row.packs; at += step) sum += product(of_dy[at], of_y[at]);
    sum = Team::merged(sum, of_warp);
    keep_stored(dy_tile);
    keep_stored(y_tile);
    #pragma unroll
    for (int u = 0; u < P; ++u) {
        if (thread + u * step < packs) of_dx[thread + u * step] = gradient(dy_tile[u], y_tile[u], sum);
    }
    if (end >= 0) dx[end] = gradient(dy_end, y_end, sum).v[0];
    for (int64_t at = rest; kRest && at < row.packs; at += step) of_dx[at] = gradient(of_dy[at], of_y[at], sum);
}

// Computes dx by columns that several threads share. The first N elements of a thread's share stay in registers.
template <int N, typename T>
__global__ void __launch_bounds__(kWarp* kColumnWarps) backward_columns(
    const T* dy, const T* y, T* __restrict__ dx, int64_t length, int64_t inner) {
    await_earlier();
    __shared__ float of_warp[kColumnWarps][kWarp];
    const Column here = column_here(length, inner, block_from_last());
    const int64_t left = here.inside ? length - threadIdx.y : 0, first = here.base + threadIdx.y * inner;
    const int step = int(blockDim.y);
    const int64_t apart = step * inner;
    Pack<T, 1> dy_tile[N], y_tile[N];
    #pragma unroll
    for (int i = 0; i < N; ++i) {  // all loads are issued before the first use
        if (i * step < left) {
            dy_tile[i].v[0] = dy[first + i * apart];
            y_tile[i].v[0] = y[first + i * apart];
        }
    }
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        if (i * step < left) sum += product(dy_tile[i], y_tile[i]);
    }
    for (int64_t i = N; i * step < left; ++i) sum += to_float(dy[first + i * apart]) * to_float(y[first + i * apart]);
    of_warp[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = of_warp[0][threadIdx.x];
    for (int warp = 1; warp < int(blockDim.y); ++warp) sum += of_warp[warp][threadIdx.x];
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        if (i * step < left) dx[first + i * apart] = gradient(dy_tile[i], y_tile[i], sum).v[0];
    }
    for (int64_t i = N; i * step < left; ++i) {
        const int64_t at = first + i * apart;
        dx[at] = from_float<T>((to_float(dy[at]) - sum) * to_float(y[at]));
    }
}

// Computes dx by whole columns. A thread holds V neighbouring columns of both tensors in registers.
template <int N, typename T, int V>
__global__ void __launch_bounds__(kWholeColumnThreads) backward_whole_columns(
    const T* dy, const T* y, T* __restrict__ dx, WholeColumns columns) {
    await_earlier();
    const WholeColumn<T, V> here(columns, block_from_last());
    if (!here.is_there) return;
    Words<T, V> of_dy[N], of_y[N];
    here.load(dy, 0, columns.length, T{}, of_dy);
    here.load(y, 0, columns.length, T{}, of_y);
    float sum[V] = {};
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        #pragma unroll
        for (int k = 0; k < V; ++k) sum[k] += to_float(of_dy[i].at(k)) * to_float(of_y[i].at(k));
    }
    keep_stored(of_dy);
    keep_stored(of_y);
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        Pack<T, V> pack;
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            pack.v[k] = from_float<T>((to_float(of_dy[i].at(k)) - sum[k]) * to_float(of_y[i].at(k)));
        }
        if (i < columns.length) *here.template in_line<Pack<T, V>>(dx, i) = pack;
    }
}

template <bool kWhole, typename T, int V>
cudaError_t launch_backward_long_rows(const Backward& args) {
    constexpr int kMost = kBackwardPacks;
    const auto* dy = static_cast<const T*>(args.dy);
    const auto* y = static_cast<const T*>(args.y);
    auto* dx = static_cast<T*>(args.dx);
    const auto start = [&](auto kernel, dim3 block, int64_t blocks = 1) {
        return start_teams(kernel, blocks, args.outer, block, args.stream, dy, y, dx, args.outer, args.length);
    };
    const int64_t packs = args.length / V;
    const Spread few(args.outer, packs, kMost, args.device);
    if constexpr (V > 1) {
        if (few.holds_row) return start(backward_rows<false, Team, false, kMost, T, V>, few.threads, few.blocks);
        const int64_t blocks = cluster_for(args.outer, packs, kMost, kMaxCluster, args.device);
        const int64_t here = packs_of_block(packs, blocks);
        const int64_t each = blocks == 1 ? packs_at_once(args.outer, packs, kMost) : kMost;
        const dim3 block = rows_block(block_for(here, each));
        if (each == 1) return start(backward_rows<kWhole, Block, false, 1, T, V>, block);
        if (each == 2) return start(backward_rows<false, Block, false, 2, T, V>, block);
        if (here <= kMost * kBlockPacks) return start(backward_rows<false, Team, false, kMost, T, V>, block, blocks);
    }
    const bool are_few = few.blocks > 1 && V > 1;
    const dim3 block = are_few ? dim3(few.threads) : rows_block(block_for(packs, kMost));
    return start(backward_rows<V == 1, Team, true, kMost / 2, T, V>, block, are_few ? few.blocks : 1);
}

template <bool kWhole, typename T, int V>
cudaError_t launch_backward_rows(const Backward& args) {
    return by_lanes<kWhole, V, kBackwardShort / V>(
        args.length / V,
        [&](auto shape) {
            return launched_by_lanes(
                shape, backward_short_rows<kWhole, shape.kLanes, shape.kPacks, T, V>, args.outer, args.stream,
                static_cast<const T*>(args.dy), static_cast<const T*>(args.y), static_cast<T*>(args.dx), args.outer,
                int(args.length));
        },
        [&] { return launch_backward_long_rows<kWhole, T, V>(args); });
}

template <typename T>
cudaError_t launch_backward_columns(const Backward& args) {
    const auto* dy = static_cast<const T*>(args.dy);
    const auto* y = static_cast<const T*>(args.y);
    auto* dx = static_cast<T*>(args.dx);
    return by_whole_columns<kShortColumn, T>(
        args, aligned(dy) && aligned(y) && aligned(dx),
        [&](auto most, auto beside, const WholeColumns& columns) {
            return launched(
                backward_whole_columns<most, T, beside>, columns.blocks(kWholeColumnThreads), kWholeColumnThreads, args.stream, dy, y, dx,
                columns);
        },
        [&] {
            return launched(
                backward_columns<kBackwardColumn, T>, unsigned(column_blocks(args.outer, args.inner)),
                column_block(args.length), args.stream, dy, y, dx, args.length, args.inner);
        });
}

inline cudaError_t backward(const Backward& args) {
    if (args.outer > kMaxGrid || column_blocks(args.outer, args.inner) > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (args.inner > 1) return launch_backward_columns<T>(args);
        if (!aligned(args.dy) || !aligned(args.y) || !aligned(args.dx)) return launch_backward_rows<true, T, 1>(args);
        if (args.length % kVector<T> == 0) return launch_backward_rows<true, T, kVector<T>>(args);
        return launch_backward_rows<false, T, kVector<T>>(args);
    });
}

}  // namespace kernelwright::softmax
