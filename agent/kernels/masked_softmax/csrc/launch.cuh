// Softmax over the last dimension of scores that are scaled and masked, forward and backward.
//
// Scores are rows of `length` keys; each row is one of `queries` queries of one of `heads` heads.
// y = softmax(scale * x + mask) over the keys that take part: those that a boolean mask names, and with `causal` those
// up to the query's own place, `start` + query. Keys that take no part, and all of a row in which none does, are 0.
// What lies behind the last key of a causal row is written and never read.
#pragma once

#include "../../csrc/partition.cuh"

namespace kernelwright::masked_softmax {

enum Mask : int64_t { kNone = 0, kNamed = 1, kAdded = 2 };

struct Forward {
    const void* x;
    const void* mask;  // bytes that are 0 or 1, or values of x's type; null for none
    void* y;
    int64_t rows, length, queries, heads;
    // Elements of the mask from one batch, head and query to the next: 0 where they share it.
    int64_t batch_stride, head_stride, query_stride;
    int64_t kind;  // a Mask
    double scale;
    int64_t causal, start;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

// dx = scale * y * (dy - sum(dy * y))
struct Backward {
    const void* dy;
    const void* y;
    void* dx;
    int64_t rows, length, queries;
    double scale;
    int64_t causal, start;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int64_t kMaxLength = 1 << 30;
constexpr int kThreads = 512;      // of a block at most: more would leave a thread too few registers
constexpr int kBackwardHeld = 16;  // elements of each of two rows that a thread has in registers
constexpr int kHeld = 32;          // the same of a row of scores

// How many keys of a row may take part, from the first on.
template <typename Arguments>
__device__ __forceinline__ int visible_keys(const Arguments& args, int64_t row) {
    if (!args.causal) return int(args.length);
    const int64_t keys = args.start + unsigned(row) % unsigned(args.queries) + 1;
    return int(max(int64_t{0}, min(args.length, keys)));
}

// One row of the scores.
struct Row {
    int64_t first;   // element of x
    int64_t masked;  // element of the mask
    int keys;        // that may take part
};

__device__ __forceinline__ Row row_at(const Forward& args, int64_t row) {
    const unsigned above = unsigned(row) / unsigned(args.queries), query = unsigned(row) % unsigned(args.queries);
    const unsigned batch = above / unsigned(args.heads), head = above % unsigned(args.heads);
    return {
        row * args.length, batch * args.batch_stride + head * args.head_stride + query * args.query_stride,
        visible_keys(args, row)};
}

constexpr int kMaskTile = 8;  // elements of a mask that a thread has under way

// apply(score, element of the mask) for each score of a tile whose packs lie at `at(u)`.
template <int V, typename Element, int N, typename At, typename Apply>
__device__ __forceinline__ void with_mask(const Element* mask, float (&tile)[N], At at, Apply apply) {
    constexpr int kPacks = N / V, kGroup = kMaskTile / V;
    #pragma unroll
    for (int first = 0; first < kPacks; first += kGroup) {
        Pack<Element, V> packs[kGroup];
        #pragma unroll
        for (int u = 0; u < kGroup && first + u < kPacks; ++u) {
            packs[u] = reinterpret_cast<const Pack<Element, V>*>(mask)[at(first + u)];
        }
        #pragma unroll
        for (int i = 0; i < kGroup * V && first * V + i < N; ++i) {
            tile[first * V + i] = apply(tile[first * V + i], packs[i / V].v[i % V]);
        }
    }
}

// The scores of N / V packs from `first` on, a block's width from each other; -inf for what takes no part. The last
// pack stands in for those outside the row until then.
template <typename T, int V, int N>
__device__ __forceinline__ void load_scores(const Forward& args, const Row& row, int first, float (&tile)[N]) {
    constexpr int kPacks = N / V;
    const int step = int(blockDim.x), packs = (row.keys + V - 1) / V;
    if (packs == 0) {
        #pragma unroll
        for (float& value : tile) value = -INFINITY;
        return;
    }
    const auto at = [&](int u) { return min(first + u * step, packs - 1); };
    const auto* x = static_cast<const Pack<T, V>*>(args.x) + row.first / V;
    Pack<T, V> scores[kPacks];
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) scores[u] = x[at(u)];
    const float scale = float(args.scale);
    #pragma unroll
    for (int i = 0; i < N; ++i) tile[i] = scale * to_float(scores[i / V].v[i % V]);
    if (args.kind == kNamed) {
        const auto apply = [](float score, unsigned char named) { return named ? score : -INFINITY; };
        with_mask<V>(static_cast<const unsigned char*>(args.mask) + row.masked, tile, at, apply);
    } else if (args.kind == kAdded) {
        const auto apply = [](float score, T added) { return score + to_float(added); };
        with_mask<V>(static_cast<const T*>(args.mask) + row.masked, tile, at, apply);
    }
    if ((first + (kPacks - 1) * step + 1) * V <= row.keys) return;
    #pragma unroll
    for (int i = 0; i < N; ++i) tile[i] = (first + i / V * step) * V + i % V < row.keys ? tile[i] : -INFINITY;
}

// What makes probabilities of exp(x - level): 0 where nothing takes part, NaN where a score is inf, as in torch.
__device__ __forceinline__ float inverse(Partition all) {
    if (all.sum == 0.0f) return 0.0f;
    return isinf(all.max) ? NAN : 1.0f / all.sum;
}

// The tile times `factor`, as packs of the row from `first` on.
template <typename T, int V, int N>
__device__ __forceinline__ void store_probabilities(
    const Forward& args, const Row& row, int first, float factor, const float (&tile)[N]) {
    auto* y = static_cast<Pack<T, V>*>(args.y) + row.first / V;
    #pragma unroll
    for (int u = 0; u < N / V; ++u) {
        const int at = first + u * int(blockDim.x);
        Pack<T, V> pack;
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(tile[u * V + k] * factor);
        if (at * V < args.length) y[at] = pack;
    }
}

// Of the threads of a row: a power of two of a warp's lanes, or a block.
__device__ __forceinline__ Partition row_merge(Partition mine, Partition* of_warp) {
    if (blockDim.x >= kWarp) return block_merge(mine, of_warp);
    float max = mine.max;
    for (int offset = int(blockDim.x) / 2; offset > 0; offset /= 2) {
        max = fmaxf(max, __shfl_xor_sync(0xffffffff, max, offset));
    }
    float sum = mine.sum * expf(mine.max - level_of(max));
    for (int offset = int(blockDim.x) / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    return {max, sum};
}

__device__ __forceinline__ float row_sum(float mine, float* of_warp) {
    if (blockDim.x >= kWarp) return block_reduce<Sum>(mine, of_warp);
    for (int offset = int(blockDim.x) / 2; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffff, mine, offset);
    return mine;
}

template <int N, typename T, int V>
__global__ void __launch_bounds__(kThreads) resident_rows(Forward args) {
    __shared__ Partition of_warp[kMaxWarps];
    if (row_here() >= args.rows) return;
    const Row row = row_at(args, row_here());
    float tile[N];
    load_scores<T, V>(args, row, threadIdx.x, tile);
    const Partition mine = add_tile<T>({-INFINITY, 0.0f}, tile);
    const Partition all = row_merge(mine, of_warp);
    store_probabilities<T, V>(args, row, threadIdx.x, expf(mine.max - level_of(all.max)) * inverse(all), tile);
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads) streamed_rows(Forward args) {
    __shared__ Partition of_warp[kMaxWarps];
    const Row row = row_at(args, blockIdx.x);
    const int step = kTile / V * int(blockDim.x);
    float tile[kTile];
    Partition all = {-INFINITY, 0.0f};
    for (int first = threadIdx.x; first * V < row.keys; first += step) {
        load_scores<T, V>(args, row, first, tile);
        all = add_tile<T>(all, tile);
    }
    all = block_merge(all, of_warp);
    const float level = level_of(all.max), factor = inverse(all);
    for (int first = threadIdx.x; first * V < args.length; first += step) {
        load_scores<T, V>(args, row, first, tile);
        #pragma unroll
        for (float& value : tile) value = exp_for<T>(value - level);
        store_probabilities<T, V>(args, row, first, factor, tile);
    }
}

template <typename T, int V>
__device__ __forceinline__ float product(const Pack<T, V>& a, const Pack<T, V>& b) {
    float sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < V; ++k) sum = fmaf(to_float(a.v[k]), to_float(b.v[k]), sum);
    return sum;
}

// The first packs of a row stay in registers; of a longer one the rest is read again.
template <int kPacks, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) backward_rows(Backward args) {
    __shared__ float of_warp[kMaxWarps];
    const int64_t row = row_here();
    if (row >= args.rows) return;
    const int packs = int(args.length / V), seen = (visible_keys(args, row) + V - 1) / V;
    const auto* dy = static_cast<const Pack<T, V>*>(args.dy) + row * packs;
    const auto* y = static_cast<const Pack<T, V>*>(args.y) + row * packs;
    auto* dx = static_cast<Pack<T, V>*>(args.dx) + row * packs;
    const int step = int(blockDim.x);
    const int rest = int(threadIdx.x) + kPacks * step;
    Pack<T, V> dy_tile[kPacks], y_tile[kPacks];
    float sum = 0.0f;
    if (seen > 0) {
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            const int at = min(int(threadIdx.x) + u * step, seen - 1);
            dy_tile[u] = dy[at];
            y_tile[u] = y[at];
        }
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            if (int(threadIdx.x) + u * step < seen) sum += product(dy_tile[u], y_tile[u]);
        }
        for (int at = rest; at < seen; at += step) sum += product(dy[at], y[at]);
    }
    sum = row_sum(sum, of_warp);
    const float scale = float(args.scale);
    const auto stored = [&](int at, const Pack<T, V>& of_dy, const Pack<T, V>& of_y) {
        Pack<T, V> pack = {};
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float made = scale * (to_float(of_dy.v[k]) - sum) * to_float(of_y.v[k]);
            pack.v[k] = from_float<T>(at < seen ? made : 0.0f);
        }
        if (at < packs) dx[at] = pack;
    };
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) stored(int(threadIdx.x) + u * step, dy_tile[u], y_tile[u]);
    for (int at = rest; at < packs; at += step) {
        const int read = max(0, min(at, seen - 1));
        stored(at, dy[read], y[read]);
    }
}

// Of rows of up to a warp's packs: as many threads for each as it has packs, and a block of them.
inline dim3 lanes_block(int64_t packs) {
    unsigned lanes = 1;
    while (lanes < packs) lanes *= 2;
    return dim3(lanes, kShortRows * kWarp / lanes);
}

template <typename T, int V>
cudaError_t launch(const Forward& args) {
    const int64_t packs = args.length / V;
    const dim3 short_rows = rows_block(kWarp), lanes = lanes_block(std::min<int64_t>(packs, kWarp));
    if (packs <= kWarp) {
        resident_rows<V, T, V><<<rows_grid(args.rows, lanes), lanes, 0, args.stream>>>(args);
    } else if (args.length <= kWarp * kTile) {
        resident_rows<kTile, T, V><<<rows_grid(args.rows, short_rows), short_rows, 0, args.stream>>>(args);
    } else if (args.length <= kThreads * kHeld) {
        const unsigned threads = block_for(packs, kHeld / V);
        resident_rows<kHeld, T, V><<<unsigned(args.rows), threads, 0, args.stream>>>(args);
    } else {
        streamed_rows<T, V><<<unsigned(args.rows), kThreads, 0, args.stream>>>(args);
    }
    return cudaGetLastError();
}

template <typename T, int V>
cudaError_t launch(const Backward& args) {
    constexpr int kPacks = kBackwardHeld / V;
    const int64_t packs = args.length / V;
    const dim3 block = packs <= kWarp ? lanes_block(packs) : rows_block(block_for(packs, kPacks));
    const unsigned grid = rows_grid(args.rows, block);
    if (packs <= kWarp) {
        backward_rows<1, T, V><<<grid, block, 0, args.stream>>>(args);
    } else {
        backward_rows<kPacks, T, V><<<grid, block, 0, args.stream>>>(args);
    }
    return cudaGetLastError();
}

template <typename Arguments>
cudaError_t launch_as(const Arguments& args, bool vectors) {
    if (args.rows > kMaxGrid || args.length > kMaxLength) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (vectors && args.length % kVector<T> == 0) return launch<T, kVector<T>>(args);
        return launch<T, 1>(args);
    });
}

// Vectors of the mask begin where vectors of x do.
inline bool mask_fits_vectors(const Forward& args) {
    if (args.mask == nullptr) return true;
    const int64_t vector = args.dtype == kFloat32 ? kVector<float> : kVector<__half>;
    const bool begins = args.kind == kAdded ? aligned(args.mask) : reinterpret_cast<uintptr_t>(args.mask) % vector == 0;
    const int64_t strides = args.batch_stride | args.head_stride | args.query_stride;  // vector is a power of two
    return begins && strides % vector == 0;
}

inline cudaError_t forward(const Forward& args) {
    return launch_as(args, aligned(args.x) && aligned(args.y) && mask_fits_vectors(args));
}

inline cudaError_t backward(const Backward& args) {
    return launch_as(args, aligned(args.dy) && aligned(args.y) && aligned(args.dx));
}

}  // namespace kernelwright::masked_softmax
