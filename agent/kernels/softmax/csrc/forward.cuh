// Softmax of [outer, length, inner] over length, forward.
//
// A row that fits into the registers of a warp, a block or a cluster, or into the shared memory of a cluster, is read
// once. Longer rows are read twice.
#pragma once

#include "columns.cuh"
#include "kept.cuh"

namespace kernelwright::softmax {

// Stores a tile times `factor` to the packs 0, step, ... below `left`, counted from y.
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
    const T* x, T* __restrict__ y, int64_t rows, int length) {
    await_earlier();
    if (is_at_once()) let_next_begin();
    const ShortShare<kWhole, L, P, V> share(rows, length);
    float tile[share.kSize];
    share.load(x, -INFINITY, tile);
    const float factor = inverse(lanes_partition<L, T>(tile));
    share.store(y, [&](int i) { return tile[i] * factor; });
}

// Computes rows in registers. A thread's exponentials are relative to its own maximum; a factor makes them relative to
// the row's maximum.
template <bool kWhole, typename Team, int P, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) resident_rows(
    const T* x, T* __restrict__ y, int64_t rows, int64_t length) {
    Team::template meet<Partition>();
    await_earlier();
    if (is_at_once()) let_next_begin();
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
    float tile[N + kEnds<kWhole>];
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
    const float max = tile_max(tile);
    const Partition all = Team::merged(Partition{max, take_exponentials<T>(tile, level_of(max))}, of_warp);
    const float factor = expf(max - level_of(all.max)) * inverse(all);
    store_tile(tile, factor, reinterpret_cast<Pack<T, V>*>(y + row.first) + thread, left, step);
    if (end >= 0) y[end] = from_float<T>(tile[N] * factor);
}

template <bool kWhole, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) streamed_rows(
    const T* x, T* __restrict__ y, int64_t rows, int64_t length) {
    await_earlier();
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

// Launches a kernel for rows of many packs. The cost of a row's ends is then negligible, so that rows of whole packs
// share the instances for ragged rows.
template <bool kWhole, typename T, int V>
cudaError_t launch_long_rows(const Forward& args) {
    constexpr int kMost = kHeld / V;
    const int64_t packs = args.length / V;
    const auto start = [&](auto kernel, unsigned threads, int64_t blocks = 1) {
        return start_teams(
            kernel, blocks, args.outer, threads, args.stream, static_cast<const T*>(args.x), static_cast<T*>(args.y),
            args.outer, args.length);
    };
    const Spread few(args.outer, packs, kMost, args.device);
    if (few.holds_row) return start(resident_rows<false, Team, kMost, T, V>, few.threads, few.blocks);
    const int64_t each = packs_at_once(args.outer, packs, kMost);
    if (each == 1) return start(resident_rows<kWhole, Block, 1, T, V>, block_for(packs, 1));
    if (each == 2) return start(resident_rows<kWhole, Block, 2, T, V>, block_for(packs, 2));
    if (packs <= kMost * kBlockPacks) return start(resident_rows<false, Team, kMost, T, V>, block_for(packs, kMost));
#ifndef KW_PORTABLE_ONLY
    const Kept kept(packs);
    if (has_clusters(args.device) && args.outer <= kMaxClusterRows && kept.bytes <= kMostKeptBytes) {
        return launch_kept_rows<T, V>(args, kept);
    }
#endif
    return start(streamed_rows<false, T, V>, kWarp * kMaxWarps);
}

template <bool kWhole, typename T, int V>
cudaError_t launch_rows(const Forward& args) {
    return by_lanes<kWhole, V, kShortPacks>(
        args.length / V,
        [&](auto shape) {
            return launched_by_lanes(
                shape, short_rows<kWhole, shape.kLanes, shape.kPacks, T, V>, args.outer, args.stream,
                static_cast<const T*>(args.x), static_cast<T*>(args.y), args.outer, int(args.length));
        },
        [&] { return launch_long_rows<kWhole, T, V>(args); });
}

// Launches a kernel for x and y that are not aligned to packs, element by element.
template <typename T>
cudaError_t launch_elements(const Forward& args) {
    const dim3 block = rows_block(block_for(args.length, kTile));
    return launched(
        streamed_rows<true, T, 1>, rows_grid(args.outer, block), block, args.stream, static_cast<const T*>(args.x),
        static_cast<T*>(args.y), args.outer, args.length);
}

template <typename T>
cudaError_t launch_columns(const Forward& args) {
    const auto* x = static_cast<const T*>(args.x);
    auto* y = static_cast<T*>(args.y);
    constexpr int kLongest = sizeof(T) == sizeof(float) ? kLongColumn : kShortColumn;
    return by_whole_columns<kLongest, T>(
        args, aligned(x) && aligned(y),
        [&](auto most, auto beside, const WholeColumns& columns) {
            return launched(
                whole_columns<most, T, beside>, columns.blocks(kWholeColumnThreads), kWholeColumnThreads, args.stream, x, y, columns);
        },
        [&] {
            const unsigned grid = unsigned(column_blocks(args.outer, args.inner));
            const auto start = [&](auto kernel) {
                return launched(kernel, grid, column_block(args.length), args.stream, x, y, args.length, args.inner);
            };
            if (args.length <= kColumnWarps * kHeldColumn / 2) return start(held_columns<kHeldColumn / 2, T>);
            if (args.length <= kColumnWarps * kHeldColumn) return start(held_columns<kHeldColumn, T>);
            return start(columns<T>);
        });
}

inline cudaError_t forward(const Forward& args) {
    if (args.outer > kMaxGrid || column_blocks(args.outer, args.inner) > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (args.inner > 1) return launch_columns<T>(args);
        if (!aligned(args.x) || !aligned(args.y)) return launch_elements<T>(args);
        if (args.length % kVector<T> == 0) return launch_rows<true, T, kVector<T>>(args);
        return launch_rows<false, T, kVector<T>>(args);
    });
}

}  // namespace kernelwright::softmax
