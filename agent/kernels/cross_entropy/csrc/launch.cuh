// Cross entropy of rows of logits, with an ignored target, label smoothing and a z-loss, forward and backward.
//
// loss = lse - (1 - smoothing) * x[target] - smoothing * mean(x) + z_loss * lse^2, and 0 for an ignored row. Forward
// reads the row once, for logsumexp, sum and target together; backward reads it once more. No probability is stored.
#pragma once

#include "../../csrc/cluster_rows.cuh"
#include "../../csrc/short_rows.cuh"

namespace kernelwright::cross_entropy {

struct Forward {
    const void* x;
    const int64_t* target;  // [rows]
    void* loss;             // [rows], in the dtype of x if `narrow`, else float32
    float* lse;             // [rows], or null if not wanted
    int64_t rows, length;
    int64_t ignored;  // target of ignored rows, whose loss is 0
    double smoothing, z_loss;
    int64_t narrow;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

struct Backward {
    const void* dloss;  // [rows], in the dtype of x if `narrow`, else float32
    const void* x;
    const int64_t* target;
    const float* lse;
    void* dx;
    int64_t rows, length;
    int64_t ignored;
    double smoothing, z_loss;
    int64_t narrow;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

// Kernel arguments: the host's arguments, with precomputed floats.
template <typename Arguments>
struct Given : Arguments {
    float own_weight, smoothing_weight, class_weight, z_weight;  // class_weight is 1 / length
    bool streams = false;                                        // the logits are read with evict-first

    explicit Given(const Arguments& args)
        : Arguments(args), own_weight(float(1.0 - args.smoothing)), smoothing_weight(float(args.smoothing)),
          class_weight(float(1.0 / double(args.length))), z_weight(float(args.z_loss)) {}
};
using GivenForward = Given<Forward>;
using GivenBackward = Given<Backward>;

constexpr int kFewElements = 16;    // maximum length of a row whose lanes handle single elements
using FewForward = ShortShape<2, kFewElements / 2>;
using FewBackward = ShortShape<4, kFewElements / 4>;  // with more lanes than forward, so that stores are closer together
constexpr int kShortPacks = 4;      // packs of a short row in a lane's registers, forward
constexpr int kBackwardShort = 16;  // elements of a short row in a lane's registers, backward
constexpr int kPacks = 4;           // packs of a row that a thread has in flight

// Number of rows from which blocks of kThreads threads fill all SMs, several per SM. While one block finishes, or waits
// for its first packs, others compute.
constexpr int64_t kManyRows = 256;
constexpr unsigned kThreads = 256;
constexpr int kSlopeBlocks = 5;  // blocks per SM, of kThreads threads that each have two packs in flight in backward

// Returns the logit of the target. An invalid target reads no memory and gives NaN, and hence a NaN loss. Only the
// first thread of a row loads the target's logit, and after its loads of the row. So no thread waits for a target
// before it has loads in flight.
template <typename T>
__device__ __forceinline__ float logit_of(const GivenForward& args, int64_t row, int64_t target) {
    const bool known = target >= 0 && target < args.length;
    return known ? to_float(static_cast<const T*>(args.x)[row * args.length + target]) : NAN;
}

constexpr int kNowhere = -0x7fffffff;  // index outside every row, counted from any element of the row

// Returns the target's index in its row, or kNowhere for an invalid target.
__device__ __forceinline__ int place_of(int64_t target, int64_t length) {
    return target >= 0 && target < length ? int(target) : kNowhere;
}

// Stores the results of a row; called by one thread. `loss` still lacks the z-loss.
template <typename T>
__device__ __forceinline__ void store_loss(
    const GivenForward& args, int64_t row, int64_t target, float lse, float loss) {
    if (args.lse != nullptr) args.lse[row] = lse;
    loss = target == args.ignored ? 0.0f : loss + args.z_weight * lse * lse;
    if (args.narrow) {
        static_cast<T*>(args.loss)[row] = from_float<T>(loss);
    } else {
        static_cast<float*>(args.loss)[row] = loss;
    }
}

// Computes the losses of short rows. kFinds: takes the target's logit from the lanes' registers, so that no load waits
// for the target. If a lane has many elements and rows are many, comparing each element costs more than waiting.
template <bool kFinds, bool kWhole, int L, int P, typename T, int V>
__global__ void __launch_bounds__(kLanesThreads) short_losses(GivenForward args) {
    await_earlier();
    const ShortShare<kWhole, L, P, V> share(args.rows, int(args.length));
    const int64_t target = share.is_there ? args.target[share.row] : 0;
    float tile[share.kSize];
    share.load(static_cast<const T*>(args.x), -INFINITY, tile, Streamed(args.streams));
    const int place = place_of(target, args.length), chosen = place == kNowhere ? place : place - share.at;
    const float asked = !kFinds && share.leads ? logit_of<T>(args, share.row, target) : 0.0f;
    const float level = level_of(lanes_max<L>(tile_max(tile)));
    // Sums are relative to the level, so that a large common offset costs no digits.
    float sum = 0.0f, own = !kFinds && share.leads ? asked - level : 0.0f, every = 0.0f;
    #pragma unroll
    for (int i = 0; i < share.kSize; ++i) {
        const float below = tile[i] - level;
        sum += exp_for<T>(below);
        if (!share.has(i)) continue;
        every += below;
        if (kFinds && share.place(i) == chosen) own = below;
    }
    if (is_at_once()) let_next_begin();
    own *= args.own_weight;
    if (args.smoothing_weight != 0.0f) own += args.smoothing_weight * args.class_weight * every;
    sum = lanes_sum<L>(sum);
    own = lanes_sum<L>(own);
    if (!share.leads) return;
    const float log = logf(sum);
    store_loss<T>(args, share.row, target, level + log, place == kNowhere ? NAN : log - own);
}

// A partition, and the plain sum of its elements.
struct alignas(16) Tally {
    Partition all;
    float sum;
    float rest;  // padding to the 16 bytes that are moved at once; 0
};

__device__ __forceinline__ Tally nothing_for(Tally) { return {{-INFINITY, 0.0f}, 0.0f}; }

__device__ __forceinline__ Tally warp_merge(Tally mine) {
    return {kernelwright::warp_merge(mine.all), warp_sum(mine.sum)};
}

template <int N>
__device__ __forceinline__ Tally merge(const Tally (&some)[N]) {
    Partition parts[N];
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        parts[i] = some[i].all;
        sum += some[i].sum;
    }
    return {kernelwright::merge(parts), sum};
}

template <bool kWhole, typename Team, int P, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) losses(GivenForward args) {
    Team::template meet<Tally>();
    await_earlier();
    constexpr int N = P * V;
    __shared__ Tally of_warp[kMaxWarps];
    const int64_t index = Team::row();
    if (index >= args.rows) return;
    const auto* x = static_cast<const T*>(args.x);
    const int thread = Team::thread(), step = Team::threads();
    const bool leads = thread == 0;
    const int64_t target = leads ? args.target[index] : 0;
    const Row row = row_at<kWhole, V>(index, args.length);
    const auto* from = reinterpret_cast<const Pack<T, V>*>(x + row.first);
    const int64_t end = end_at<kWhole, V>(row, thread);
    float of_end[1] = {end_value(x, end)};
    const Streamed reads(args.streams);
    Partition all = {-INFINITY, 0.0f};
    float sum = end >= 0 ? of_end[0] : 0.0f;
    for (int64_t first = thread; first < row.packs; first += P * step) {
        float tile[N];
        load_tile(from + first, row.packs - first, step, 1, tile, reads);
        const int here = int(min(row.packs - first, int64_t{P} * step));
        if (args.smoothing_weight != 0.0f) {
            #pragma unroll
            for (int i = 0; i < N; ++i) {
                if (i / V * step < here) sum += tile[i];
            }
        }
        all = add_tile<T>(all, tile);
    }
    const float own = leads ? logit_of<T>(args, index, target) : 0.0f;
    if (!kWhole) all = add_tile<T>(all, of_end);
    if (std::is_same_v<Team, Block> && is_at_once()) let_next_begin();
    const Tally tally = Team::merged(Tally{all, sum}, of_warp);
    if (!leads) return;
    const float lse = level_of(tally.all.max) + logf(tally.all.sum);
    // Computes the loss from differences, so that a large common offset costs no digits.
    float loss = args.own_weight * (lse - own);
    if (args.smoothing_weight != 0.0f) loss += args.smoothing_weight * (lse - tally.sum * args.class_weight);
    store_loss<T>(args, index, target, lse, loss);
}

// Gradient of a row: dx = dloss * (softmax * (1 + 2 * z_loss * lse) - (1 - smoothing) [target] - smoothing / length).
// It is evaluated for an element, given whether the element is the target's.
struct Slope {
    float lse, factor, everywhere, there;

    __device__ __forceinline__ Slope(const GivenBackward& args, float given, float lse) : lse(lse) {
        factor = given * (1.0f + 2.0f * args.z_weight * lse);
        everywhere = given * args.smoothing_weight * args.class_weight;
        there = given * args.own_weight;
    }

    template <typename T>
    __device__ __forceinline__ float of(float value, bool is_target) const {
        const float made = factor * exp_for<T>(value - lse) - everywhere;
        return is_target ? made - there : made;
    }
    template <typename T>
    __device__ __forceinline__ T made(T value, bool is_target) const {
        return from_float<T>(of<T>(to_float(value), is_target));
    }
};

template <typename T>
__device__ __forceinline__ float gradient_of(const GivenBackward& args, int64_t row) {
    return args.narrow ? to_float(static_cast<const T*>(args.dloss)[row]) : static_cast<const float*>(args.dloss)[row];
}

template <typename T>
__device__ __forceinline__ void bring_near_gradient(const GivenBackward& args, int64_t row) {
    bring_near(static_cast<const char*>(args.dloss) + row * int64_t(args.narrow ? sizeof(T) : sizeof(float)));
}

template <bool kWhole, int L, int P, typename T, int V>
__global__ void __launch_bounds__(kLanesThreads, sizeof(T) < sizeof(float) ? 8 : 0) short_slopes(GivenBackward args) {
    const ShortShare<kWhole, L, P, V> share(args.rows, int(args.length), block_from_last());
    if (!share.is_there) return;
    if (share.leads && is_at_once()) bring_near_gradient<T>(args, share.row);
    await_earlier();
    const int64_t target = args.target[share.row];
    const float given = gradient_of<T>(args, share.row), lse = args.lse[share.row];
    float tile[share.kSize];
    share.load(static_cast<const T*>(args.x), 0.0f, tile);
    const bool counts = target != args.ignored;
    const Slope slope(args, given, lse);
    const int place = place_of(target, args.length), chosen = place == kNowhere ? place : place - share.at;
    share.store(static_cast<T*>(args.dx), [&](int i) {
        return counts ? slope.template of<T>(tile[i], share.place(i) == chosen) : 0.0f;
    });
}

// Computes dx of rows. With kOnce a thread has one pack, loaded before the target is known. Without kOnce it loads two
// packs at a time.
template <bool kWhole, bool kOnce, typename T, int V>
__global__ void __launch_bounds__(kOnce ? kWarp * kMaxWarps : int(kThreads), kOnce ? 1 : kSlopeBlocks) slopes(
    GivenBackward args) {
    const int64_t index = Block::row_from_last();
    if (index >= args.rows) return;
    if (threadIdx.x == 0 && is_at_once()) bring_near_gradient<T>(args, index);
    await_earlier();
    const Row row = row_at<kWhole, V>(index, args.length);
    const auto* x = static_cast<const T*>(args.x);
    auto* dx = static_cast<T*>(args.dx);
    const auto* from = reinterpret_cast<const Pack<T, V>*>(x + row.first);
    auto* to = reinterpret_cast<Pack<T, V>*>(dx + row.first);
    const int thread = int(blockIdx.y * blockDim.x + threadIdx.x), threads = int(gridDim.y * blockDim.x);
    const int64_t end = end_at<kWhole, V>(row, thread);
    const int64_t target = args.target[index];
    const float given = gradient_of<T>(args, index), lse = args.lse[index];
    const T of_end = end >= 0 ? x[end] : T{};
    Pack<T, V> pack = {}, second;
    if (kOnce && thread < row.packs) pack = from[thread];
    if (target == args.ignored) {
        if (end >= 0) dx[end] = T{};
        for (int64_t place = thread; place < row.packs; place += threads) to[place] = Pack<T, V>{};
        return;
    }
    const Slope slope(args, given, lse);
    const int64_t chosen = index * args.length + target;
    if (end >= 0) dx[end] = slope.made(of_end, end == chosen);
    // A single pack contains the target: other packs need no comparisons.
    const int64_t from_first = chosen - row.first, of_target = from_first >= 0 ? from_first / V : -1;
    const auto put = [&](int64_t place, const Pack<T, V>& given) {
        float values[V];
        #pragma unroll
        for (int k = 0; k < V; ++k) values[k] = slope.template of<T>(to_float(given.v[k]), false);
        if (place == of_target) {
            #pragma unroll
            for (int k = 0; k < V; ++k) values[k] -= k == int(from_first % V) ? slope.there : 0.0f;
        }
        Pack<T, V> made;
        #pragma unroll
        for (int k = 0; k < V; ++k) made.v[k] = from_float<T>(values[k]);
        to[place] = made;
    };
    if constexpr (kOnce) {
        if (thread < row.packs) put(thread, pack);
    } else {
        for (int64_t place = thread; place < row.packs; place += 2 * threads) {
            const bool are_two = place + threads < row.packs;
            pack = from[place];
            if (are_two) second = from[place + threads];
            put(place, pack);
            if (are_two) put(place + threads, second);
        }
    }
}

template <bool kWhole, typename T, int V>
cudaError_t launch_rows(const Forward& args) {
    const int64_t packs = args.length / V;
    GivenForward given(args);
    // Does not stream the logits if a gradient follows, which reads them again, from the last row on.
    given.streams = args.lse == nullptr && is_streamed(args.rows * args.length * int64_t{sizeof(T)}, args.device);
    const auto start = [&](auto kernel, dim3 block, int64_t blocks = 1) {
        return start_teams(kernel, blocks, args.rows, block, args.stream, given);
    };
    if constexpr (V == 1) {
        if (args.length <= kFewElements) {
            const auto kernel = short_losses<true, kWhole, FewForward::kLanes, FewForward::kPacks, T, V>;
            return launched_by_lanes(FewForward{}, kernel, args.rows, args.stream, given);
        }
    }
    return by_lanes<kWhole, V, kShortPacks, kShortPacks * kWarp>(
        packs,
        [&](auto shape) {
            const auto start_short = [&](auto shape, auto finds) {
                const auto kernel = short_losses<finds, kWhole, shape.kLanes, shape.kPacks, T, V>;
                return launched_by_lanes(shape, kernel, args.rows, args.stream, given);
            };
            constexpr bool kFewHeld = shape.kPacks <= 2;
            if constexpr (shape.kPacks == kShortPacks) {
                // Uses two packs per lane for few rows, if the warp has enough lanes.
                using Wider = ShortShape<std::min(2 * shape.kLanes, kWarp), shape.kLanes == kWarp ? kShortPacks : 2>;
                if (are_few(args.rows, packs)) return start_short(Wider{}, std::true_type{});
            }
            return start_short(shape, std::bool_constant<kFewHeld>{});
        },
        [&] {
            const int64_t each = packs_at_once(args.rows, packs, kPacks);
            const unsigned threads = block_for(packs, each == 1 ? 1 : kPacks);
            const dim3 block = rows_block(args.rows < kManyRows ? threads : std::min(threads, kThreads));
            if constexpr (V > 1) {
                const Spread few(args.rows, packs, kPacks, args.device);
                if (few.blocks > 1) return start(losses<false, Team, kPacks, T, V>, few.threads, few.blocks);
                if (each == 1) return start(losses<kWhole, Block, 1, T, V>, block);
            }
            return start(losses<V == 1, Block, kPacks, T, V>, block);
        });
}

template <bool kWhole, typename T, int V>
cudaError_t launch_rows(const Backward& args) {
    const int64_t packs = args.length / V;
    if constexpr (V == 1) {
        if (args.length <= kFewElements) {
            const auto kernel = short_slopes<kWhole, FewBackward::kLanes, FewBackward::kPacks, T, V>;
            return launched_by_lanes(FewBackward{}, kernel, args.rows, args.stream, GivenBackward(args));
        }
    }
    return by_lanes<kWhole, V, kBackwardShort / V>(
        packs,
        [&](auto shape) {
            const auto kernel = short_slopes<kWhole, shape.kLanes, shape.kPacks, T, V>;
            return launched_by_lanes(shape, kernel, args.rows, args.stream, GivenBackward(args));
        },
        [&] {
            SharedRows shape = shared_rows(args.rows, packs, kPacks);
            const bool once = packs <= int64_t{shape.block.x} * shape.grid.y;
            const auto start = [&](auto kernel) {
                return launched(kernel, shape.grid, shape.block, args.stream, GivenBackward(args));
            };
            if constexpr (V > 1) {
                if (once) return start(slopes<kWhole, true, T, V>);
            }
            shape.block.x = std::min(shape.block.x, kThreads);
            return start(slopes<V == 1, false, T, V>);
        });
}

template <typename Arguments>
cudaError_t launch(const Arguments& args, bool packs) {
    if (args.rows > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        const bool whole = args.length % kVector<T> == 0;
        // Handles single elements in so short rows: most are at the ends, where packs would leave a lane one each.
        if (!packs || (!whole && args.length <= kFewElements)) return launch_rows<true, T, 1>(args);
        if (whole) return launch_rows<true, T, kVector<T>>(args);
        return launch_rows<false, T, kVector<T>>(args);
    });
}

inline cudaError_t forward(const Forward& args) { return launch(args, aligned(args.x)); }

inline cudaError_t backward(const Backward& args) { return launch(args, aligned(args.x) && aligned(args.dx)); }

}  // namespace kernelwright::cross_entropy
