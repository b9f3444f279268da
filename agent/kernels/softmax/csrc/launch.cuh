// Softmax of [outer, length, inner] over length, forward and backward.
//
// A row that the registers of a block hold is read once; a longer one twice.
#pragma once

#include "../../csrc/short_rows.cuh"

#ifndef KW_PORTABLE_ONLY
#include "../../csrc/cluster_rows.cuh"
#endif

namespace kernelwright::softmax {

struct Forward {
    const void* x;
    void* y;
    int64_t outer, length, inner;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

// dx = (dy - sum(dy * y)) * y
struct Backward {
    const void* dy;
    const void* y;
    void* dx;
    int64_t outer, length, inner;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kHeld = 32;          // elements of a row that a thread has in registers
constexpr int kShortColumn = 32;
constexpr int kHeldColumn = 16;  // elements of a column in each of its threads' registers
constexpr int kColumnThreads = 256;
constexpr int64_t kManyColumns = 65536;  // that keep the SMs busy with a thread each
constexpr int kBackwardShort = 16;  // elements of each of two short rows in a lane's
constexpr int kBackwardPacks = 4;  // of each of two rows, in registers

// NaN for a row with inf, and for one of nothing but -inf, as in torch.
__device__ __forceinline__ float inverse(Partition all) { return isinf(all.max) ? NAN : 1.0f / all.sum; }

// The packs of a tile, times `factor`, as the packs 0, step, ... below `left` from y on.
template <typename T, int V, int N>
__device__ __forceinline__ void store_tile(
    const float (&tile)[N], float factor, Pack<T, V>* y, int64_t left, int step) {
    #pragma unroll
    for (int u = 0; u < N / V; ++u) {
        Pack<T, V> pack;
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(tile[u * V + k] * factor);
        if (u * step < left) y[u * step] = pack;
    }
}

template <bool kWhole, int L, int P, typename T, int V>
__global__ void __launch_bounds__(kLanesThreads) short_rows(
    const T* __restrict__ x, T* __restrict__ y, int64_t rows, int length) {
    const ShortShare<kWhole, L, P, V> share(rows, length);
    float tile[share.kSize];
    share.load(x, -INFINITY, tile);
    const float factor = inverse(lanes_partition<L, T>(tile));
    share.store(y, [&](int i) { return tile[i] * factor; });
}

// A thread takes its exponentials below its own maximum, and one factor makes them those below the row's. With
// kCluster the blocks of a cluster, side by side in x, take a row.
template <bool kWhole, typename Team, int P, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) resident_rows(
    const T* __restrict__ x, T* __restrict__ y, int64_t rows, int64_t length) {
    constexpr int N = P * V;
    __shared__ Partition of_warp[kMaxWarps];
    const int64_t index = Team::row();
    if (index >= rows) return;
    const int thread = Team::thread(), step = Team::threads();
    const Row row = row_at<kWhole, V>(index, length);
    const auto* from = reinterpret_cast<const Pack<T, V>*>(x + row.first) + thread;
    const int left = int(row.packs) - thread;
    const int64_t end = end_at<kWhole, V>(row, thread);
    Pack<T, V> packs[P];
    float tile[N + kEnds<kWhole, V>];
    #pragma unroll
    for (int u = 0; u < P; ++u) {
        if (u * step < left) packs[u] = from[u * step];
    }
    if (!kWhole) tile[N] = end_value(x, end);
    #pragma unroll
    for (int i = 0; i < N; ++i) tile[i] = to_float(packs[i / V].v[i % V]);
    if (left <= (P - 1) * step) {
        #pragma unroll
        for (int i = 0; i < N; ++i) tile[i] = i / V * step < left ? tile[i] : -INFINITY;
    }
    const Partition mine = add_tile<T>({-INFINITY, 0.0f}, tile);
    const Partition all = Team::merged(mine, of_warp);
    const float factor = expf(mine.max - level_of(all.max)) * inverse(all);
    store_tile(tile, factor, reinterpret_cast<Pack<T, V>*>(y + row.first) + thread, left, step);
    if (end >= 0) y[end] = from_float<T>(tile[N] * factor);
    Team::part();
}

template <bool kWhole, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) streamed_rows(
    const T* __restrict__ x, T* __restrict__ y, int64_t rows, int64_t length) {
    __shared__ Partition of_warp[kMaxWarps];
    if (row_here() >= rows) return;
    const Row row = row_at<kWhole, V>(row_here(), length);
    const auto* from = reinterpret_cast<const Pack<T, V>*>(x + row.first);
    auto* to = reinterpret_cast<Pack<T, V>*>(y + row.first);
    const int step = int(blockDim.x);
    const int64_t end = end_at<kWhole, V>(row, threadIdx.x);
    Partition all = partition<kTile>(from, threadIdx.x, row.packs, step, 1);
    float of_end[1] = {end_value(x, end)};
    if (!kWhole) all = add_tile<T>(all, of_end);
    all = Block::merged(all, of_warp);
    const float level = level_of(all.max);
    const float factor = inverse(all);
    for (int64_t first = threadIdx.x; first < row.packs; first += kTile / V * step) {
        float tile[kTile];
        load_tile(from + first, row.packs - first, step, 1, tile);
        #pragma unroll
        for (float& value : tile) value = exp_for<T>(value - level);
        store_tile(tile, factor, to + first, row.packs - first, step);
    }
    if (end >= 0) y[end] = from_float<T>(exp_for<T>(to_float(x[end]) - level) * factor);
}

template <typename T>
__global__ void columns(const T* __restrict__ x, T* __restrict__ y, int64_t length, int64_t inner) {
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

// The threads of a column have it in their registers, N elements each at most.
template <int N, typename T>
__global__ void __launch_bounds__(kWarp* kColumnWarps) held_columns(
    const T* __restrict__ x, T* __restrict__ y, int64_t length, int64_t inner) {
    __shared__ Partition of_warp[kColumnWarps][kWarp];
    const Column here = column_here(length, inner);
    const int left = here.inside ? int(length) - int(threadIdx.y) : 0, step = int(blockDim.y);
    const int64_t first = here.base + threadIdx.y * inner, apart = step * inner;
    float tile[N];
    #pragma unroll
    for (int i = 0; i < N; ++i) tile[i] = i * step < left ? to_float(x[first + i * apart]) : -INFINITY;
    const Partition mine = add_tile<T>({-INFINITY, 0.0f}, tile);
    const Partition all = column_merge(mine, of_warp);
    const float factor = expf(mine.max - level_of(all.max)) * inverse(all);
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        if (i * step < left) y[first + i * apart] = from_float<T>(tile[i] * factor);
    }
}

// A thread has a whole column of up to kShortColumn in its registers.
template <int N, typename T>
__global__ void __launch_bounds__(kColumnThreads) short_columns(
    const T* __restrict__ x, T* __restrict__ y, int64_t length, int64_t inner, int64_t count) {
    const int64_t column = int64_t{blockIdx.x} * kColumnThreads + threadIdx.x;
    if (column >= count) return;
    const int64_t first = column / inner * length * inner + column % inner;
    float tile[N];
    #pragma unroll
    for (int i = 0; i < N; ++i) tile[i] = i < length ? to_float(x[first + i * inner]) : -INFINITY;
    const float factor = inverse(add_tile<T>({-INFINITY, 0.0f}, tile));
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        if (i < length) y[first + i * inner] = from_float<T>(tile[i] * factor);
    }
}

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
__global__ void __launch_bounds__(kLanesThreads) backward_short_rows(
    const T* __restrict__ dy, const T* __restrict__ y, T* __restrict__ dx, int64_t rows, int length) {
    const ShortShare<kWhole, L, P, V> share(rows, length);
    float of_dy[share.kSize], of_y[share.kSize];
    share.load(dy, 0.0f, of_dy);
    share.load(y, 0.0f, of_y);
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < share.kSize; ++i) sum += of_dy[i] * of_y[i];
    sum = lanes_sum<L>(sum);
    share.store(dx, [&](int i) { return (of_dy[i] - sum) * of_y[i]; });
}

// The first packs of a row stay in registers; of a longer one the rest is read again.
template <bool kWhole, typename Team, bool kRest, int P, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) backward_rows(
    const T* __restrict__ dy, const T* __restrict__ y, T* __restrict__ dx, int64_t rows, int64_t length) {
    __shared__ float of_warp[kMaxWarps];
    const int64_t index = Team::row();
    if (index >= rows) return;
    const int thread = Team::thread(), step = Team::threads();
    const Row row = row_at<kWhole, V>(index, length);
    const auto* of_dy = reinterpret_cast<const Pack<T, V>*>(dy + row.first);
    const auto* of_y = reinterpret_cast<const Pack<T, V>*>(y + row.first);
    auto* of_dx = reinterpret_cast<Pack<T, V>*>(dx + row.first);
    const int64_t end = end_at<kWhole, V>(row, thread);
    const int packs = kRest ? int(min(row.packs, int64_t{P} * step)) : int(row.packs);
    Pack<T, V> dy_tile[P], y_tile[P];
    Pack<T, 1> dy_end, y_end;
    #pragma unroll
    for (int u = 0; u < P; ++u) {  // all are asked for before any is looked at
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
    sum = Team::summed(sum, of_warp);
    keep_stored(dy_tile);
    keep_stored(y_tile);
    #pragma unroll
    for (int u = 0; u < P; ++u) {
        if (thread + u * step < packs) of_dx[thread + u * step] = gradient(dy_tile[u], y_tile[u], sum);
    }
    if (end >= 0) dx[end] = gradient(dy_end, y_end, sum).v[0];
    for (int64_t at = rest; kRest && at < row.packs; at += step) of_dx[at] = gradient(of_dy[at], of_y[at], sum);
    Team::part();
}

// The first N elements of a thread's share of a column stay in registers.
template <int N, typename T>
__global__ void __launch_bounds__(kWarp* kColumnWarps) backward_columns(
    const T* __restrict__ dy, const T* __restrict__ y, T* __restrict__ dx, int64_t length, int64_t inner) {
    __shared__ float of_warp[kColumnWarps][kWarp];
    const Column here = column_here(length, inner);
    const int64_t left = here.inside ? length - threadIdx.y : 0, first = here.base + threadIdx.y * inner;
    const int step = int(blockDim.y);
    const int64_t apart = step * inner;
    Pack<T, 1> dy_tile[N], y_tile[N];
    #pragma unroll
    for (int i = 0; i < N; ++i) {  // all are asked for before any is looked at
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

template <bool kWhole, typename T, int V>
cudaError_t launch_rows(const Forward& args) {
    const int64_t packs = args.length / V;
    const auto* x = static_cast<const T*>(args.x);
    auto* y = static_cast<T*>(args.y);
    const auto start = [&](auto kernel, dim3 block) {
        kernel<<<rows_grid(args.outer, block), block, 0, args.stream>>>(x, y, args.outer, args.length);
        return cudaGetLastError();
    };
    constexpr int kMost = kHeld / V;
    const int64_t under_way = args.outer * packs;
    const auto long_rows = [&] {
#ifndef KW_PORTABLE_ONLY
        const bool short_of_blocks = args.outer <= kFewRows && packs > kBlockHeld;
        if ((short_of_blocks || packs > kBlockHeld * kMost) && has_clusters(args.device)) {
            const int64_t blocks = short_of_blocks ? kMaxCluster : cluster_for(packs, kClusterHeld * kMost);
            const int64_t each = share_of(packs, blocks);
            const auto cluster = [&](auto kernel, int count) {
                return start_cluster(kernel, blocks, args.outer, block_for(each, count), args.stream, x, y, args.outer, args.length);
            };
            if (each <= kBlockHeld) return cluster(resident_rows<kWhole, Cluster, 1, T, V>, 1);
            if (each <= 2 * kBlockHeld) return cluster(resident_rows<kWhole, Cluster, 2, T, V>, 2);
            if (each <= kMost * kBlockHeld) return cluster(resident_rows<kWhole, Cluster, kMost, T, V>, kMost);
        }
#endif
        if (under_way <= kThreadsAtOnce / 4 && packs <= kBlockHeld) {
            return start(resident_rows<kWhole, Block, 1, T, V>, block_for(packs, 1));
        }
        if (under_way <= kThreadsAtOnce && packs <= 2 * kBlockHeld) {
            return start(resident_rows<kWhole, Block, 2, T, V>, block_for(packs, 2));
        }
        if (packs <= kBlockHeld * kMost) {
            return start(resident_rows<kWhole, Block, kMost, T, V>, block_for(packs, kMost));
        }
        return start(streamed_rows<kWhole, T, V>, kWarp * kMaxWarps);
    };
    if (V == 1 || (under_way <= kThreadsAtOnce && packs > 2 * kWarp)) return long_rows();
    return by_lanes<V, kHeld>(
        packs,
        [&](auto shape) {
            short_rows<kWhole, shape.kLanes, shape.kPacks, T, V>
                <<<lanes_grid(shape, args.outer), kLanesThreads, 0, args.stream>>>(x, y, args.outer, int(args.length));
            return cudaGetLastError();
        },
        long_rows);
}

// Where x and y do not begin where packs do.
template <typename T>
cudaError_t launch_elements(const Forward& args) {
    const dim3 block = rows_block(block_for(args.length, kTile));
    streamed_rows<true, T, 1><<<rows_grid(args.outer, block), block, 0, args.stream>>>(
        static_cast<const T*>(args.x), static_cast<T*>(args.y), args.outer, args.length);
    return cudaGetLastError();
}

inline cudaError_t forward(const Forward& args) {
    if (args.outer > kMaxGrid || column_blocks(args.outer, args.inner) > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (args.inner > 1 && args.length <= kShortColumn && args.outer * args.inner >= kManyColumns) {
            const int64_t count = args.outer * args.inner;
            const unsigned grid = unsigned((count + kColumnThreads - 1) / kColumnThreads);
            const auto* x = static_cast<const T*>(args.x);
            auto* y = static_cast<T*>(args.y);
            if (args.length <= kShortColumn / 4) {
                short_columns<kShortColumn / 4>
                    <<<grid, kColumnThreads, 0, args.stream>>>(x, y, args.length, args.inner, count);
            } else {
                short_columns<kShortColumn>
                    <<<grid, kColumnThreads, 0, args.stream>>>(x, y, args.length, args.inner, count);
            }
            return cudaGetLastError();
        }
        if (args.inner > 1) {
            const unsigned grid = unsigned(column_blocks(args.outer, args.inner));
            const dim3 block = column_block(args.length);
            const auto start = [&](auto kernel) {
                kernel<<<grid, block, 0, args.stream>>>(
                    static_cast<const T*>(args.x), static_cast<T*>(args.y), args.length, args.inner);
                return cudaGetLastError();
            };
            if (args.length <= kColumnWarps * kHeldColumn / 2) return start(held_columns<kHeldColumn / 2, T>);
            if (args.length <= kColumnWarps * kHeldColumn) return start(held_columns<kHeldColumn, T>);
            return start(columns<T>);
        }
        if (!aligned(args.x) || !aligned(args.y)) return launch_elements<T>(args);
        if (args.length % kVector<T> == 0) return launch_rows<true, T, kVector<T>>(args);
        return launch_rows<false, T, kVector<T>>(args);
    });
}

template <bool kWhole, typename T, int V>
cudaError_t launch_backward_rows(const Backward& args) {
    const int64_t packs = args.length / V;
    const auto* dy = static_cast<const T*>(args.dy);
    const auto* y = static_cast<const T*>(args.y);
    auto* dx = static_cast<T*>(args.dx);
    const auto start = [&](auto kernel, dim3 block) {
        kernel<<<rows_grid(args.outer, block), block, 0, args.stream>>>(dy, y, dx, args.outer, args.length);
        return cudaGetLastError();
    };
    constexpr int kMost = kBackwardPacks;
    const int64_t under_way = args.outer * packs;
    const auto long_rows = [&] {
#ifndef KW_PORTABLE_ONLY
        const bool short_of_blocks = args.outer <= kFewRows && packs > kBlockHeld;
        if (V > 1 && (short_of_blocks || packs > kBlockHeld * kMost) && has_clusters(args.device)) {
            const int64_t blocks = short_of_blocks ? kMaxCluster : cluster_for(packs, kClusterHeld * kMost);
            const int64_t each = share_of(packs, blocks);
            if (each <= kBlockHeld * kMost) {
                const unsigned threads = block_for(each, each <= kBlockHeld ? 1 : kMost);
                return start_cluster(
                    backward_rows<kWhole, Cluster, false, kMost, T, V>, blocks, args.outer, threads, args.stream, dy, y, dx,
                    args.outer, args.length);
            }
        }
#endif
        if (under_way <= kThreadsAtOnce / 4 && packs <= kBlockHeld) {
            return start(backward_rows<kWhole, Block, false, 1, T, V>, block_for(packs, 1));
        }
        if (under_way <= kThreadsAtOnce && packs <= 2 * kBlockHeld) {
            return start(backward_rows<kWhole, Block, false, 2, T, V>, block_for(packs, 2));
        }
        if (packs <= kBlockHeld * kMost) return start(backward_rows<kWhole, Block, false, kMost, T, V>, rows_block(block_for(packs, kMost)));
        return start(backward_rows<kWhole, Block, true, kMost, T, V>, dim3(kWarp * kMaxWarps));
    };
    if (V == 1 || (under_way <= kThreadsAtOnce && packs > 2 * kWarp)) return long_rows();
    return by_lanes<V, kBackwardShort>(
        packs,
        [&](auto shape) {
            backward_short_rows<kWhole, shape.kLanes, shape.kPacks, T, V>
                <<<lanes_grid(shape, args.outer), kLanesThreads, 0, args.stream>>>(
                    dy, y, dx, args.outer, int(args.length));
            return cudaGetLastError();
        },
        long_rows);
}

inline cudaError_t backward(const Backward& args) {
    if (args.outer > kMaxGrid || column_blocks(args.outer, args.inner) > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (args.inner > 1) {
            const unsigned grid = unsigned(column_blocks(args.outer, args.inner));
            backward_columns<kHeldColumn / 2, T><<<grid, column_block(args.length), 0, args.stream>>>(
                static_cast<const T*>(args.dy), static_cast<const T*>(args.y), static_cast<T*>(args.dx), args.length,
                args.inner);
            return cudaGetLastError();
        }
        if (!aligned(args.dy) || !aligned(args.y) || !aligned(args.dx)) return launch_backward_rows<true, T, 1>(args);
        if (args.length % kVector<T> == 0) return launch_backward_rows<true, T, kVector<T>>(args);
        return launch_backward_rows<false, T, kVector<T>>(args);
    });
}

}  // namespace kernelwright::softmax
