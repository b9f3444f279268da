// Softmax over the last dimension of scaled and masked scores, forward and backward.
//
// Scores are rows of `length` keys; each row is one of `queries` queries of one of `heads` heads. y = softmax(scale * x
// + mask) over the unmasked keys: those where a boolean mask is true, and with `causal` those up to the query's own
// position, `start` + query. Masked keys get 0, and so does every key of a row in which all keys are masked.
// Elements of a causal row behind its last visible key are written, but never read.
#pragma once

#include "../../csrc/divisor.cuh"
#include "../../csrc/short_rows.cuh"
#include "parts.cuh"

namespace kernelwright::masked_softmax {

enum Mask : int64_t { kNone = 0, kNamed = 1, kAdded = 2 };

struct Forward {
    const void* x;
    const void* mask;  // bytes that are 0 or 1, or values of the dtype of x; null if there is none
    void* y;
    int64_t rows, length, queries, heads;
    // Strides of the mask by batch, head and query, in elements; 0 where all batches, heads or queries share the mask.
    int64_t batch_stride, head_stride, query_stride;
    int64_t kind;  // value of the enum Mask
    double scale;
    int64_t causal, start;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

// Arguments of dx = scale * y * (dy - sum(dy * y)).
struct Backward {
    const void* dy;
    const void* y;
    void* dx;
    void* dmask;  // sum of `parts` equal parts of dx, divided by scale; unused if `parts` is 0
    int64_t rows, length, queries;
    int64_t parts;
    double scale;
    int64_t causal, start;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int64_t kMaxLength = 1 << 30;
constexpr int kThreads = 512;      // maximum block size; more would leave a thread too few registers
constexpr int kShortPacks = 4;     // packs of a short row of scores in a lane's registers
constexpr int kBackwardHeld = 16;  // elements of each of two rows in a thread's registers
constexpr int kHeld = 32;          // elements of a row of scores in a thread's registers

// Kernel arguments: the host's arguments, with precomputed divisors.
template <typename Arguments>
struct Given : Arguments {
    Divisor<unsigned> by_queries, by_heads;

    Given(const Arguments& args, int64_t heads) : Arguments(args), by_queries(args.queries), by_heads(heads) {}
};
using GivenForward = Given<Forward>;
using GivenBackward = Given<Backward>;

inline GivenForward given(const Forward& args) { return {args, args.heads}; }
inline GivenBackward given(const Backward& args) { return {args, 1}; }

// Returns the number of keys of a row, from the first on, that are not masked by `causal`.
template <typename Arguments>
__device__ __forceinline__ int visible_keys(const Given<Arguments>& args, int64_t row) {
    if (!args.causal) return int(args.length);
    const unsigned query = unsigned(row) - args.by_queries.of(unsigned(row)) * unsigned(args.queries);
    return int(max(int64_t{0}, min(args.length, args.start + query + 1)));
}

// Location of a row of the scores.
struct Scores {
    Row row;
    int64_t start;   // offset of the row's first element in x
    int64_t masked;  // offset of the row's first element in the mask
    int keys;        // number of visible keys
};

// Returns the offset of a row's first element in the mask.
__device__ __forceinline__ int64_t masked_at(const GivenForward& args, int64_t row) {
    const unsigned above = args.by_queries.of(unsigned(row)), query = unsigned(row) - above * unsigned(args.queries);
    const unsigned batch = args.by_heads.of(above), head = above - batch * unsigned(args.heads);
    return batch * args.batch_stride + head * args.head_stride + query * args.query_stride;
}

template <bool kWhole, int V>
__device__ __forceinline__ Scores scores_at(const GivenForward& args, int64_t row) {
    return {row_at<kWhole, V>(row, args.length), row * args.length, masked_at(args, row), visible_keys(args, row)};
}

// Returns the score of element `end` of x, or -inf if it is masked.
template <typename T>
__device__ __forceinline__ float score_at(const GivenForward& args, const Scores& scores, int64_t end) {
    const int64_t key = end - scores.start;
    if (end < 0 || key >= scores.keys) return -INFINITY;
    const float score = float(args.scale) * to_float(static_cast<const T*>(args.x)[end]);
    if (args.kind == kNamed) {
        return static_cast<const unsigned char*>(args.mask)[scores.masked + key] ? score : -INFINITY;
    }
    if (args.kind == kAdded) return score + to_float(static_cast<const T*>(args.mask)[scores.masked + key]);
    return score;
}

constexpr int kMaskTile = 8;  // elements of a mask that a thread has in flight

// Replaces each score of a tile by apply(score, mask element); the tile's packs are at(u) in the mask's row. Unless
// rows are whole packs, the mask's packs have another alignment than those of x and are read by elements.
template <bool kWhole, int V, typename Element, int N, typename At, typename Apply>
__device__ __forceinline__ void with_mask(const Element* mask, float (&tile)[N], At at, Apply apply) {
    constexpr int kPacks = N / V, kGroup = kMaskTile / V;
    #pragma unroll
    for (int first = 0; first < kPacks; first += kGroup) {
        Pack<Element, V> packs[kGroup];
        #pragma unroll
        for (int u = 0; u < kGroup && first + u < kPacks; ++u) {
            if constexpr (kWhole) {
                packs[u] = reinterpret_cast<const Pack<Element, V>*>(mask)[at(first + u)];
            } else {
                #pragma unroll
                for (int k = 0; k < V; ++k) packs[u].v[k] = mask[at(first + u) * V + k];
            }
        }
        #pragma unroll
        for (int i = 0; i < kGroup * V && first * V + i < N; ++i) {
            tile[first * V + i] = apply(tile[first * V + i], packs[i / V].v[i % V]);
        }
    }
}

// Loads the scores of N / V whole packs, from `first` on at a distance of a block's width. Masked elements and elements
// outside the row get -inf; loads outside the row read its last pack.
template <bool kWhole, typename T, int V, int N>
__device__ __forceinline__ void load_scores(const GivenForward& args, const Scores& scores, int first, float (&tile)[N]) {
    constexpr int kPacks = N / V;
    const int keys = scores.keys - scores.row.before;  // counted from the first whole pack
    const int step = int(blockDim.x), packs = min((keys + V - 1) / V, int(scores.row.packs));
    if (packs <= 0) {
        #pragma unroll
        for (float& value : tile) value = -INFINITY;
        return;
    }
    const auto at = [&](int u) { return min(first + u * step, packs - 1); };
    const auto* x = reinterpret_cast<const Pack<T, V>*>(static_cast<const T*>(args.x) + scores.row.first);
    Pack<T, V> read[kPacks];
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) read[u] = x[at(u)];
    const float scale = float(args.scale);
    #pragma unroll
    for (int i = 0; i < N; ++i) tile[i] = scale * to_float(read[i / V].v[i % V]);
    const int64_t masked = scores.masked + scores.row.before;
    if (args.kind == kNamed) {
        const auto apply = [](float score, unsigned char named) { return named ? score : -INFINITY; };
        with_mask<kWhole, V>(static_cast<const unsigned char*>(args.mask) + masked, tile, at, apply);
    } else if (args.kind == kAdded) {
        const auto apply = [](float score, T added) { return score + to_float(added); };
        with_mask<kWhole, V>(static_cast<const T*>(args.mask) + masked, tile, at, apply);
    }
    const int inside = min(keys, packs * V);
    if ((first + (kPacks - 1) * step + 1) * V <= inside) return;
    #pragma unroll
    for (int i = 0; i < N; ++i) tile[i] = (first + i / V * step) * V + i % V < inside ? tile[i] : -INFINITY;
}

// Returns the factor from exp(x - level) to probabilities: 0 if all keys are masked, NaN if a score is inf, as in
// torch.
__device__ __forceinline__ float inverse(Partition all) {
    if (all.sum == 0.0f) return 0.0f;
    return isinf(all.max) ? NAN : inverse_of_sum(all.sum);
}

// Stores the tile times `factor` to whole packs of the row, from `first` on.
template <typename T, int V, int N>
__device__ __forceinline__ void store_probabilities(
    const GivenForward& args, const Scores& scores, int first, float factor, const float (&tile)[N]) {
    auto* y = reinterpret_cast<Pack<T, V>*>(static_cast<T*>(args.y) + scores.row.first);
    #pragma unroll
    for (int u = 0; u < N / V; ++u) {
        const int at = first + u * int(blockDim.x);
        Pack<T, V> pack;
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(tile[u * V + k] * factor);
        if (at < scores.row.packs) y[at] = pack;
    }
}

// Loads the scores of a share of a short row and applies apply(score, mask element) to each. `mask` points to the row's
// mask.
template <typename T, bool kWhole, int L, int P, int V, typename Element, int N, typename Apply>
__device__ __forceinline__ void load_masked(
    const GivenForward& args, const ShortShare<kWhole, L, P, V>& share, const Element* mask, float (&tile)[N],
    Apply apply) {
    const Element* from = mask + share.at;
    const auto* x = static_cast<const T*>(args.x);
    const float scale = float(args.scale);
    if constexpr (kWhole) {
        Words<Element, V> read[P];
        #pragma unroll
        for (int u = 0; u < P; ++u) {
            if (u * L < share.left) read[u] = reinterpret_cast<const Words<Element, V>*>(from)[u * L];
        }
        share.load(x, 0.0f, tile);
        #pragma unroll
        for (int i = 0; i < N; ++i) tile[i] = apply(scale * tile[i], read[i / V].at(i % V));
    } else {
        share.load(x, 0.0f, tile);
        #pragma unroll
        for (int i = 0; i < N; ++i) {
            if (share.has(i)) tile[i] = apply(scale * tile[i], from[share.place(i)]);
        }
    }
}

template <bool kWhole, int L, int P, typename T, int V>
__global__ void __launch_bounds__(kLanesThreads, P * V <= 8 ? 8 : P * V <= 16 ? 5 : 4) short_rows(GivenForward args) {
    await_earlier();
    const ShortShare<kWhole, L, P, V> share(args.rows, int(args.length));
    constexpr int N = share.kSize;
    const int keys = share.is_there ? visible_keys(args, share.row) : 0;
    const auto seen = share.up_to(keys);
    const int64_t masked = share.is_there ? masked_at(args, share.row) : 0;
    float tile[N];
    if (args.kind == kNamed) {
        const auto apply = [](float score, unsigned char named) { return named ? score : -INFINITY; };
        load_masked<T>(args, seen, static_cast<const unsigned char*>(args.mask) + masked, tile, apply);
    } else if (args.kind == kAdded) {
        const auto apply = [](float score, T added) { return score + to_float(added); };
        load_masked<T>(args, seen, static_cast<const T*>(args.mask) + masked, tile, apply);
    } else {
        const float scale = float(args.scale);
        seen.load(static_cast<const T*>(args.x), 0.0f, tile);
        #pragma unroll
        for (int i = 0; i < N; ++i) tile[i] *= scale;
    }
    // In most rows every lane has all of its packs.
    if (!kWhole || seen.left <= (P - 1) * L || seen.at + ((P - 1) * L + 1) * V > keys) {
        #pragma unroll
        for (int i = 0; i < N; ++i) {
            if (!seen.has(i) || seen.at + seen.place(i) >= keys) tile[i] = -INFINITY;
        }
    }
    const float factor = inverse(lanes_partition<L, T>(tile));
    share.store(static_cast<T*>(args.y), [&](int i) { return tile[i] * factor; });
}

// Minimum blocks per SM for float32. Without a number the compiler would spill registers to fit more blocks.
template <bool kWhole, typename T>
constexpr int kResidentBlocks = sizeof(T) < sizeof(float) ? 0 : kWhole ? 1 : 2;

template <bool kWhole, int P, typename T, int V>
__global__ void __launch_bounds__(kThreads, kResidentBlocks<kWhole, T>) resident_rows(GivenForward args) {
    await_earlier();
    __shared__ Partition of_warp[kMaxWarps];
    const Scores scores = scores_at<kWhole, V>(args, blockIdx.x);
    const int64_t end = end_at<kWhole, V>(scores.row, threadIdx.x);
    float tile[P * V], of_end[1] = {score_at<T>(args, scores, end)};
    load_scores<kWhole, T, V>(args, scores, threadIdx.x, tile);
    float max = of_end[0];
    const Partition packed = add_tile<T>({max, 0.0f}, tile);
    max = packed.max;
    const Partition mine = kWhole ? packed : add_tile<T>(packed, of_end);
    const Partition all = Block::merged(mine, of_warp);
    const float factor = expf(max - level_of(all.max)) * inverse(all);
    store_probabilities<T, V>(args, scores, threadIdx.x, factor, tile);
    if (end >= 0) static_cast<T*>(args.y)[end] = from_float<T>(of_end[0] * factor);
}

template <bool kWhole, typename T, int V>
__global__ void __launch_bounds__(kThreads) streamed_rows(GivenForward args) {
    await_earlier();
    __shared__ Partition of_warp[kMaxWarps];
    const Scores scores = scores_at<kWhole, V>(args, blockIdx.x);
    const int64_t end = end_at<kWhole, V>(scores.row, threadIdx.x);
    const int step = kTile / V * int(blockDim.x), seen = scores.keys - scores.row.before;
    float tile[kTile], of_end[1] = {score_at<T>(args, scores, end)};
    Partition all = {-INFINITY, 0.0f};
    for (int first = threadIdx.x; first * V < seen; first += step) {
        load_scores<kWhole, T, V>(args, scores, first, tile);
        all = add_tile<T>(all, tile);
    }
    const float score = of_end[0];
    if (!kWhole) all = add_tile<T>(all, of_end);
    all = block_merge(all, of_warp);
    const float level = level_of(all.max), factor = inverse(all);
    for (int first = threadIdx.x; first < scores.row.packs; first += step) {
        load_scores<kWhole, T, V>(args, scores, first, tile);
        #pragma unroll
        for (float& value : tile) value = exp_for<T>(value - level);
        store_probabilities<T, V>(args, scores, first, factor, tile);
    }
    if (end >= 0) static_cast<T*>(args.y)[end] = from_float<T>(exp_for<T>(score - level) * factor);
}

template <typename T, int V>
__device__ __forceinline__ float product(const Pack<T, V>& a, const Pack<T, V>& b) {
    float sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < V; ++k) sum = fmaf(to_float(a.v[k]), to_float(b.v[k]), sum);
    return sum;
}

template <bool kWhole, int L, int P, typename T, int V>
__global__ void __launch_bounds__(kLanesThreads, kWhole && P * V == kBackwardHeld && sizeof(T) < sizeof(float) ? 6 : 0) backward_short_rows(
    GivenBackward args) {
    await_earlier();
    const ShortShare<kWhole, L, P, V> share(args.rows, int(args.length), block_from_last());
    const auto seen = share.up_to(share.is_there ? visible_keys(args, share.row) : 0);
    float of_dy[share.kSize], of_y[share.kSize];
    seen.load(static_cast<const T*>(args.dy), 0.0f, of_dy);
    seen.load(static_cast<const T*>(args.y), 0.0f, of_y);
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < share.kSize; ++i) sum = fmaf(of_dy[i], of_y[i], sum);
    sum = lanes_sum<L>(sum);
    const float scale = float(args.scale);
    share.store(static_cast<T*>(args.dx), [&](int i) { return scale * (of_dy[i] - sum) * of_y[i]; });
}

// Computes dx by rows. The first packs of a row stay in registers; the remaining packs of a longer row are read again.
template <bool kWhole, int P, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) backward_rows(GivenBackward args) {
    await_earlier();
    __shared__ float of_warp[kMaxWarps];
    const int64_t index = Block::row_from_last();
    if (index >= args.rows) return;
    const Row row = row_at<kWhole, V>(index, args.length);
    const int keys = visible_keys(args, index), packs = int(row.packs);
    const int seen = max(0, min(packs, (keys - row.before + V - 1) / V));
    const auto* dy = reinterpret_cast<const Pack<T, V>*>(static_cast<const T*>(args.dy) + row.first);
    const auto* y = reinterpret_cast<const Pack<T, V>*>(static_cast<const T*>(args.y) + row.first);
    auto* dx = reinterpret_cast<Pack<T, V>*>(static_cast<T*>(args.dx) + row.first);
    const int step = int(blockDim.x);
    const int rest = int(threadIdx.x) + P * step;
    Pack<T, V> dy_tile[P], y_tile[P];
    Pack<T, 1> dy_end = {}, y_end = {};
    const int64_t end = end_at<kWhole, V>(row, threadIdx.x);
    const bool has_end = end >= 0 && end - index * args.length < keys;
    if (has_end) {
        dy_end.v[0] = static_cast<const T*>(args.dy)[end];
        y_end.v[0] = static_cast<const T*>(args.y)[end];
    }
    float sum = product(dy_end, y_end);
    if (seen > 0) {
        #pragma unroll
        for (int u = 0; u < P; ++u) {
            const int at = min(int(threadIdx.x) + u * step, seen - 1);
            dy_tile[u] = dy[at];
            y_tile[u] = y[at];
        }
        #pragma unroll
        for (int u = 0; u < P; ++u) {
            if (int(threadIdx.x) + u * step < seen) sum += product(dy_tile[u], y_tile[u]);
        }
        for (int at = rest; at < seen; at += step) sum += product(dy[at], y[at]);
    }
    sum = Block::merged(sum, of_warp);
    const float scale = float(args.scale);
    const auto slope = [&](T of_dy, T of_y) { return scale * (to_float(of_dy) - sum) * to_float(of_y); };
    const auto stored = [&](int at, const Pack<T, V>& of_dy, const Pack<T, V>& of_y) {
        Pack<T, V> pack = {};
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(at < seen ? slope(of_dy.v[k], of_y.v[k]) : 0.0f);
        if (at < packs) dx[at] = pack;
    };
    #pragma unroll
    for (int u = 0; u < P; ++u) stored(int(threadIdx.x) + u * step, dy_tile[u], y_tile[u]);
    for (int at = rest; at < packs; at += step) {
        const int read = max(0, min(at, seen - 1));
        stored(at, dy[read], y[read]);
    }
    if (end >= 0) {
        static_cast<T*>(args.dx)[end] = from_float<T>(has_end ? slope(dy_end.v[0], y_end.v[0]) : 0.0f);
    }
}

template <bool kWhole, typename T, int V>
cudaError_t launch_rows(const Forward& args) {
    const int64_t packs = args.length / V;
    const auto start = [&](auto kernel, unsigned grid, dim3 block) {
        return launched(kernel, grid, block, args.stream, given(args));
    };
    return by_lanes<kWhole, V, kShortPacks, kShortPacks * kWarp, false>(
        packs,
        [&](auto shape) {
            const auto kernel = short_rows<kWhole, shape.kLanes, shape.kPacks, T, V>;
            return launched_by_lanes(shape, kernel, args.rows, args.stream, given(args));
        },
        [&] {
            if constexpr (V > 1) {
                constexpr int kMost = kHeld / V;
                const dim3 block = block_for(packs, kMost);
                if (packs <= kThreads * kMost) return start(resident_rows<kWhole, kMost, T, V>, args.rows, block);
            }
            const unsigned threads = std::min<unsigned>(block_for(packs, kTile / V), kThreads);
            return start(streamed_rows<kWhole, T, V>, args.rows, threads);
        });
}

template <bool kWhole, typename T, int V>
cudaError_t launch_rows(const Backward& args) {
    constexpr int kMost = kBackwardHeld / V;
    const int64_t packs = args.length / V;
    const auto start = [&](auto kernel, unsigned grid, dim3 block) {
        return launched(kernel, grid, block, args.stream, given(args));
    };
    return by_lanes<kWhole, V, kMost, 64, false>(
        packs,
        [&](auto shape) {
            const auto kernel = backward_short_rows<kWhole, shape.kLanes, shape.kPacks, T, V>;
            return launched_by_lanes(shape, kernel, args.rows, args.stream, given(args));
        },
        [&] {
            const dim3 block = rows_block(block_for(packs, kMost));
            return start(backward_rows<kWhole, kMost, T, V>, rows_grid(args.rows, block), block);
        });
}

// Launches by rows. `packs`: the tensors are aligned to packs. `whole`: the packs of the mask are aligned, too.
template <typename Arguments>
cudaError_t launch(const Arguments& args, bool packs, bool whole) {
    if (args.rows > kMaxGrid || args.length > kMaxLength) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (!packs) return launch_rows<true, T, 1>(args);
        if (whole && args.length % kVector<T> == 0) return launch_rows<true, T, kVector<T>>(args);
        return launch_rows<false, T, kVector<T>>(args);
    });
}

// Returns true if vectors of the mask are aligned wherever vectors of x are.
inline bool mask_fits_vectors(const Forward& args) {
    if (args.mask == nullptr) return true;
    const int64_t vector = args.dtype == kFloat32 ? kVector<float> : kVector<__half>;
    const bool begins = args.kind == kAdded ? aligned(args.mask) : reinterpret_cast<uintptr_t>(args.mask) % vector == 0;
    const int64_t strides = args.batch_stride | args.head_stride | args.query_stride;  // vector is a power of 2
    return begins && strides % vector == 0;
}

inline cudaError_t forward(const Forward& args) {
    return launch(args, aligned(args.x) && aligned(args.y), mask_fits_vectors(args));
}

inline cudaError_t backward(const Backward& args) {
    const cudaError_t error = launch(args, aligned(args.dy) && aligned(args.y) && aligned(args.dx), true);
    if (error != cudaSuccess || args.parts == 0) return error;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        return launch_sum_parts(
            static_cast<const T*>(args.dx), static_cast<T*>(args.dmask), args.parts, args.rows * args.length / args.parts,
            float(1.0 / args.scale), args.stream);
    });
}

}  // namespace kernelwright::masked_softmax
