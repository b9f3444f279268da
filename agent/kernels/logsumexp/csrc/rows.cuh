// logsumexp over the last dimension: rows, forward and backward.
#pragma once

#include "../../csrc/cluster_rows.cuh"
#include "../../csrc/short_rows.cuh"
#include "call.cuh"

namespace kernelwright::logsumexp {

constexpr int kThreads = 256;  // maximum block size if a block handles a row alone

// Elements that a thread has in flight.
template <int V>
constexpr int kUnderWay = V == 1 ? kTile : 2 * kTile;

// Packs of 16-bit elements per lane, for rows that a warp handles. With one block per short row, the launch would take
// longer than the reads.
constexpr int kLanePacks = 8;

constexpr int kShortHeld = 32;      // elements of a short row in a lane's registers
constexpr int kBackwardShort = 16;  // elements of a short row in a lane's registers, in backward
constexpr int kBackwardPacks = 4;   // packs of a row in a thread's registers, in backward

template <bool kWhole, int L, int P, typename T, int V>
__global__ void __launch_bounds__(kLanesThreads) short_rows(
    const T* x, T* __restrict__ y, float* __restrict__ exact, int64_t count, int length, bool streams) {
    await_earlier();
    if (is_at_once()) let_next_begin();
    const ShortShare<kWhole, L, P, V> share(count, length);
    float tile[share.kSize];
    share.load(x, -INFINITY, tile, Streamed(streams));
    const float result = result_of(lanes_partition<L, T>(tile));
    if (!share.leads) return;
    y[share.row] = from_float<T>(result);
    if (exact != nullptr) exact[share.row] = result;
}

template <bool kWhole, typename Team, int P, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) rows(
    const T* x, T* __restrict__ y, float* __restrict__ exact, int64_t count, int64_t length, bool streams) {
    Team::template meet<Partition>();
    await_earlier();
    if (std::is_same_v<Team, Block> && is_at_once()) let_next_begin();
    __shared__ Partition of_warp[kMaxWarps];
    const int64_t index = Team::row();
    if (index >= count) return;
    const int thread = Team::thread(), step = Team::threads();
    const Row row = row_at<kWhole, V>(index, length);
    const float of_end = end_value(x, end_at<kWhole, V>(row, thread));
    const auto* packs = reinterpret_cast<const Pack<T, V>*>(x + row.first);
    Partition all = partition<P * V>(packs, thread, row.packs, step, 1, Streamed(streams));
    if (!kWhole) {
        float tile[1] = {of_end};
        all = add_tile<T>(all, tile);
    }
    all = Team::merged(all, of_warp);
    if (thread != 0) return;
    y[index] = from_float<T>(result_of(all));
    if (exact != nullptr) exact[index] = result_of(all);
}

template <bool kWhole, int L, int P, typename T, int V>
__global__ void __launch_bounds__(kLanesThreads, 8) backward_short_rows(
    const T* dy, const T* x, const float* exact, T* __restrict__ dx,
    int64_t count, int64_t length) {
    const ShortShare<kWhole, L, P, V> share(count, int(length), block_from_last());
    if (!share.is_there) return;
    if (share.leads && is_at_once()) bring_near(dy + share.row);
    await_earlier();
    const float scale = to_float(dy[share.row]), result = exact[share.row];
    float tile[share.kSize];
    share.load(x, 0.0f, tile);
    share.store(dx, [&](int i) { return scale * exp_for<T>(tile[i] - result); });
}

template <bool kWhole, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) backward_rows(
    const T* dy, const T* x, const float* exact, T* __restrict__ dx,
    int64_t count, int64_t length) {
    const int64_t index = Block::row_from_last();
    if (index >= count) return;
    // If blocks share a row, each would prefetch the same address, which is slower (docs/log.md).
    if (threadIdx.x == 0 && gridDim.y == 1 && is_at_once()) bring_near(dy + index);
    await_earlier();
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

template <bool kWhole, typename T, int V>
cudaError_t launch_long_rows(const Forward& args) {
    constexpr int kMost = kUnderWay<V> / V;
    const int64_t packs = args.length / V;
    const auto start = [&](auto kernel, dim3 block, int64_t blocks = 1) {
        return start_teams(
            kernel, blocks, args.outer, block, args.stream, static_cast<const T*>(args.x), static_cast<T*>(args.y),
            args.exact, args.outer, args.length, streams<T>(args));
    };
    if constexpr (V > 1) {
        const Spread few(args.outer, packs, kMost, args.device);
        if (few.blocks > 1) return start(rows<false, Team, kMost, T, V>, few.threads, few.blocks);
        const int64_t each = packs_at_once(args.outer, packs, kMost);
        if (each <= 2) {
            const dim3 block = rows_block(std::min<unsigned>(block_for(packs, each), kThreads));
            return each == 1 ? start(rows<kWhole, Block, 1, T, V>, block) : start(rows<kWhole, Block, 2, T, V>, block);
        }
    }
    const bool are_short = V > kVector<float> && packs <= kLanePacks * kWarp;
    const unsigned threads = are_short ? kWarp : std::min<unsigned>(block_for(packs, kMost), kThreads);
    return start(rows<kWhole, Block, kMost, T, V>, rows_block(threads));
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
                static_cast<const T*>(args.x), static_cast<T*>(args.y), args.exact, args.outer, int(args.length),
                streams<T>(args));
        },
        [&] { return launch_long_rows<kWhole, T, V>(args); });
}

template <bool kWhole, typename T, int V>
cudaError_t launch_rows(const Backward& args) {
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

}  // namespace kernelwright::logsumexp
