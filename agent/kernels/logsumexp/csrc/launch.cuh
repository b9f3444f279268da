// log(sum(exp(x))) of [outer, length, inner] over length, forward and backward; one read of x.
#pragma once

#include "../../csrc/cluster_rows.cuh"
#include "../../csrc/short_rows.cuh"

namespace kernelwright::logsumexp {

struct Forward {
    const void* x;
    void* y;      // [outer, inner]
    float* exact;  // [outer, inner]: y before it is rounded to dtype; null where it is not wanted
    int64_t outer, length, inner;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

// dx = dy * exp(x - exact)
struct Backward {
    const void* dy;  // [outer, inner]
    const void* x;
    const float* exact;
    void* dx;
    int64_t outer, length, inner;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kThreads = 256;  // of a block that takes a row by itself, at most

// Elements that a thread has under way.
template <int V>
constexpr int kUnderWay = V == 1 ? kTile : 2 * kTile;

// Packs of 16-bit elements that a lane takes of a row where a warp takes the row: of rows that short a block for each
// would take longer to launch than to read.
constexpr int kLanePacks = 8;

// So many columns keep the SMs busy with a thread each, which takes up to so many elements.
constexpr int64_t kManyColumns = 65536;
constexpr int64_t kManyLength = 256;
constexpr int kColumnRows = 8;  // that it has under way

constexpr int kShortHeld = 32;      // elements of a short row in a lane's registers
constexpr int kBackwardShort = 16;  // the same backward
constexpr int kBackwardPacks = 4;   // that a thread takes

// Like torch, an infinite maximum is the result: the difference to it would be NaN.
__device__ __forceinline__ float result_of(Partition all) {
    return isinf(all.max) && !isnan(all.sum) ? all.max : all.max + logf(all.sum);
}

template <bool kWhole, int L, int P, typename T, int V>
__global__ void __launch_bounds__(kLanesThreads) short_rows(
    const T* x, T* __restrict__ y, float* __restrict__ exact, int64_t count, int length) {
    await_earlier();
    const ShortShare<kWhole, L, P, V> share(count, length);
    float tile[share.kSize];
    share.load(x, -INFINITY, tile);
    const float result = result_of(lanes_partition<L, T>(tile));
    if (!share.leads) return;
    y[share.row] = from_float<T>(result);
    if (exact != nullptr) exact[share.row] = result;
}

template <bool kWhole, typename Team, int P, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) rows(
    const T* x, T* __restrict__ y, float* __restrict__ exact, int64_t count, int64_t length) {
    await_earlier();
    __shared__ Partition of_warp[kMaxWarps];
    const int64_t index = Team::row();
    if (index >= count) return;
    const int thread = Team::thread(), step = Team::threads();
    const Row row = row_at<kWhole, V>(index, length);
    const float of_end = end_value(x, end_at<kWhole, V>(row, thread));
    Partition all = partition<P * V>(reinterpret_cast<const Pack<T, V>*>(x + row.first), thread, row.packs, step, 1);
    if (!kWhole) {
        float tile[1] = {of_end};
        all = add_tile<T>(all, tile);
    }
    all = Team::merged(all, of_warp);
    Team::part();
    if (thread != 0) return;
    y[index] = from_float<T>(result_of(all));
    if (exact != nullptr) exact[index] = result_of(all);
}

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

// A thread takes V neighbouring columns, kColumnRows of their elements at once.
template <typename T, int V>
__global__ void __launch_bounds__(kWholeColumnThreads) many_columns(
    const T* x, T* __restrict__ y, float* __restrict__ exact, int64_t length, int64_t inner, int64_t count) {
    await_earlier();
    const WholeColumns here(length, inner);
    if (here.number >= count) return;
    const auto* from = reinterpret_cast<const Pack<T, V>*>(x) + here.first;
    Partition all[V];
    #pragma unroll
    for (Partition& one : all) one = {-INFINITY, 0.0f};
    for (int left = int(length); left > 0; left -= kColumnRows, from += kColumnRows * inner) {
        Pack<T, V> packs[kColumnRows];
        #pragma unroll
        for (int i = 0; i < kColumnRows; ++i) {
            if (i < left) packs[i] = from[i * inner];
        }
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            float tile[kColumnRows];
            #pragma unroll
            for (int i = 0; i < kColumnRows; ++i) tile[i] = i < left ? to_float(packs[i].v[k]) : -INFINITY;
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

template <bool kWhole, int L, int P, typename T, int V>
__global__ void __launch_bounds__(kLanesThreads) backward_short_rows(
    const T* dy, const T* x, const float* exact, T* __restrict__ dx,
    int64_t count, int64_t length) {
    await_earlier();
    const ShortShare<kWhole, L, P, V> share(count, int(length), block_from_last());
    if (!share.is_there) return;
    const float scale = to_float(dy[share.row]), result = exact[share.row];
    float tile[share.kSize];
    share.load(x, 0.0f, tile);
    share.store(dx, [&](int i) { return scale * exp_for<T>(tile[i] - result); });
}

template <bool kWhole, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) backward_rows(
    const T* dy, const T* x, const float* exact, T* __restrict__ dx,
    int64_t count, int64_t length) {
    await_earlier();
    const int64_t index = Block::row_from_last();
    if (index >= count) return;
    const int thread = int(blockIdx.y * blockDim.x + threadIdx.x), threads = int(gridDim.y * blockDim.x);
    const float scale = to_float(dy[index]);
    const float result = exact[index];
    const Row row = row_at<kWhole, V>(index, length);
    const auto slope = [&](T value) { return from_float<T>(scale * exp_for<T>(to_float(value) - result)); };
    const int64_t end = end_at<kWhole, V>(row, thread);
    if (end >= 0) dx[end] = slope(x[end]);
    const auto* from = reinterpret_cast<const Pack<T, V>*>(x + row.first);
    auto* to = reinterpret_cast<Pack<T, V>*>(dx + row.first);
    for (int64_t at = thread; at < row.packs; at += threads) {
        Pack<T, V> pack = from[at];
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = slope(pack.v[k]);
        to[at] = pack;
    }
}

template <typename T>
__global__ void backward_columns(
    const T* dy, const T* x, const float* exact, T* __restrict__ dx,
    int64_t length, int64_t inner) {
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

// A thread takes V neighbouring columns.
template <typename T, int V>
__global__ void __launch_bounds__(kWholeColumnThreads) backward_many_columns(
    const T* dy, const T* x, const float* exact, T* __restrict__ dx, int64_t length, int64_t inner, int64_t count) {
    await_earlier();
    const WholeColumns here(length, inner, block_from_last());
    if (here.number >= count) return;
    const auto* from = reinterpret_cast<const Pack<T, V>*>(x) + here.first;
    auto* to = reinterpret_cast<Pack<T, V>*>(dx) + here.first;
    const auto scale = reinterpret_cast<const Pack<T, V>*>(dy)[here.number];
    const auto result = reinterpret_cast<const Pack<float, V>*>(exact)[here.number];
    for (int left = int(length); left > 0; left -= kColumnRows, from += kColumnRows * inner, to += kColumnRows * inner) {
        Pack<T, V> packs[kColumnRows];
        #pragma unroll
        for (int i = 0; i < kColumnRows; ++i) {
            if (i < left) packs[i] = from[i * inner];
        }
        #pragma unroll
        for (int i = 0; i < kColumnRows; ++i) {
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                const float slope = to_float(scale.v[k]) * exp_for<T>(to_float(packs[i].v[k]) - result.v[k]);
                packs[i].v[k] = from_float<T>(slope);
            }
            if (i < left) to[i * inner] = packs[i];
        }
    }
}

template <typename Arguments>
bool are_many_columns(const Arguments& args) {
    return args.inner > 1 && args.outer * args.inner >= kManyColumns && args.length <= kManyLength;
}

template <bool kWhole, typename T, int V>
cudaError_t launch_long_rows(const Forward& args) {
    constexpr int kMost = kUnderWay<V> / V;
    const int64_t packs = args.length / V;
    const auto start = [&](auto kernel, unsigned threads, int64_t blocks = 1) {
        return start_teams(
            kernel, blocks, args.outer, rows_block(threads), args.stream, static_cast<const T*>(args.x),
            static_cast<T*>(args.y), args.exact, args.outer, args.length);
    };
    if constexpr (V > 1) {
        if (lack_blocks(args.outer, packs) && has_clusters(args.device)) {
            const unsigned threads = block_for(packs_of_block(packs, kMaxCluster), 2);
            return start(rows<kWhole, Team, 2, T, V>, threads, kMaxCluster);
        }
        const int64_t each = packs_at_once(args.outer, packs, kMost);
        if (each <= 2) {
            const unsigned threads = std::min<unsigned>(block_for(packs, each), kThreads);
            return each == 1 ? start(rows<kWhole, Block, 1, T, V>, threads) : start(rows<kWhole, Team, 2, T, V>, threads);
        }
    }
    const bool are_short = V > kVector<float> && packs <= kLanePacks * kWarp;
    const unsigned threads = are_short ? kWarp : std::min<unsigned>(block_for(packs, kMost), kThreads);
    return start(rows<kWhole, Block, kMost, T, V>, threads);
}

template <bool kWhole, typename T, int V>
cudaError_t launch_rows(const Forward& args) {
    constexpr int kMost = kShortHeld / V;
    const int64_t packs = args.length / V;
    if (V == 1 || (packs > 4 * kWarp && are_few(args.outer, packs))) return launch_long_rows<kWhole, T, V>(args);
    return by_lanes<kWhole, V, kMost, kMost * kWarp>(
        packs,
        [&](auto shape) {
            return launched_by_lanes(
                shape, short_rows<kWhole, shape.kLanes, shape.kPacks, T, V>, args.outer, args.stream,
                static_cast<const T*>(args.x), static_cast<T*>(args.y), args.exact, args.outer, int(args.length));
        },
        [&] { return launch_long_rows<kWhole, T, V>(args); });
}

inline cudaError_t forward(const Forward& args) {
    if (args.outer > kMaxGrid || column_blocks(args.outer, args.inner) > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (are_many_columns(args)) {
            const auto start = [&](auto kernel, int beside) {
                const int64_t inner = args.inner / beside, count = args.outer * inner;
                return launched(
                    kernel, whole_column_blocks(count), kWholeColumnThreads, args.stream, static_cast<const T*>(args.x),
                    static_cast<T*>(args.y), args.exact, args.length, inner, count);
            };
            constexpr int kMany = kBeside<T>;
            const bool fit = args.inner % kMany == 0 && aligned(args.x) && aligned(args.y) && aligned(args.exact);
            return fit ? start(many_columns<T, kMany>, kMany) : start(many_columns<T, 1>, 1);
        }
        if (args.inner > 1) {
            return launched(
                columns<T>, unsigned(column_blocks(args.outer, args.inner)), column_block(args.length), args.stream,
                static_cast<const T*>(args.x), static_cast<T*>(args.y), args.exact, args.length, args.inner);
        }
        if (!aligned(args.x)) return launch_rows<true, T, 1>(args);
        if (args.length % kVector<T> == 0) return launch_rows<true, T, kVector<T>>(args);
        return launch_rows<false, T, kVector<T>>(args);
    });
}

template <bool kWhole, typename T, int V>
cudaError_t launch_backward_rows(const Backward& args) {
    const int64_t packs = args.length / V;
    const auto* dy = static_cast<const T*>(args.dy);
    const auto* x = static_cast<const T*>(args.x);
    auto* dx = static_cast<T*>(args.dx);
    return by_lanes<kWhole, V, kBackwardShort / V>(
        packs,
        [&](auto shape) {
            const auto kernel = backward_short_rows<kWhole, shape.kLanes, shape.kPacks, T, V>;
            return launched_by_lanes(
                shape, kernel, args.outer, args.stream, dy, x, args.exact, dx, args.outer, args.length);
        },
        [&] {
            const SharedRows shape = shared_rows(args.outer, packs, kBackwardPacks);
            return launched(
                backward_rows<V == 1, T, V>, shape.grid, shape.block, args.stream, dy, x, args.exact, dx, args.outer,
                args.length);
        });
}

inline cudaError_t backward(const Backward& args) {
    if (args.outer > kMaxGrid || column_blocks(args.outer, args.inner) > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (are_many_columns(args)) {
            const auto start = [&](auto kernel, int beside) {
                const int64_t inner = args.inner / beside, count = args.outer * inner;
                return launched(
                    kernel, whole_column_blocks(count), kWholeColumnThreads, args.stream, static_cast<const T*>(args.dy),
                    static_cast<const T*>(args.x), args.exact, static_cast<T*>(args.dx), args.length, inner, count);
            };
            constexpr int kMany = kBeside<T>;
            const bool fit = args.inner % kMany == 0 && aligned(args.dy) && aligned(args.x) && aligned(args.exact) &&
                             aligned(args.dx);
            return fit ? start(backward_many_columns<T, kMany>, kMany) : start(backward_many_columns<T, 1>, 1);
        }
        if (args.inner > 1) {
            const unsigned grid = unsigned(column_blocks(args.outer, args.inner));
            return launched(
                backward_columns<T>, grid, column_block(args.length), args.stream, static_cast<const T*>(args.dy),
                static_cast<const T*>(args.x), args.exact, static_cast<T*>(args.dx), args.length, args.inner);
        }
        if (!aligned(args.x) || !aligned(args.dx)) return launch_backward_rows<true, T, 1>(args);
        if (args.length % kVector<T> == 0) return launch_backward_rows<true, T, kVector<T>>(args);
        return launch_backward_rows<false, T, kVector<T>>(args);
    });
}

}  // namespace kernelwright::logsumexp
