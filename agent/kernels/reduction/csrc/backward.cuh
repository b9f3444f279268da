// Gradients of amax and norm. The gradients of sum and mean are a broadcast of the result's gradient, without a kernel.
#pragma once

#include <type_traits>

#include "../../csrc/divisor.cuh"
#include "../../csrc/reduce.cuh"

namespace kernelwright::reduction {

enum Kind : int64_t { kSum = 0, kAmax = 1, kArgmax = 2, kNorm = 3 };

// Arguments of the backward. kAmax: dx = dy / number of occurrences where x == y, else 0. kNorm: dx = dy * x / norm, or 0
// where the norm is 0.
struct Backward {
    const void* dy;  // [a, b, c]
    const void* x;
    const void* y;
    const void* beside;  // as in Forward
    void* dx;
    int64_t a, r2, b, r1, c;
    int64_t kind;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kTilePacks = 4;  // packs that a thread of the backward has in flight

template <typename Arguments>
bool takes_vectors(const Arguments& args, int64_t vector) {
    return aligned(args.x) && (args.c == 1 ? args.r1 : args.c) % vector == 0;
}

// Index type of packs. A tensor with more packs than 32 bits can count is processed element by element (V == 1).
template <int V>
using IndexOf = std::conditional_t<V == 1, int64_t, unsigned>;

// Mapping from packs of x to results. If c is 1, all elements of a pack have the same result.
template <typename Index>
struct Layout {
    Index packs;
    Divisor<Index> inner;  // packs of a result's row, or of r1 if c is 1
    Divisor<Index> r1, b, r2;
    bool has_one, is_alone;  // has_one: c == 1; is_alone: r2 == 1

    // Location of a pack: the index of its result, or of its pack of results, and the index in r1 of its first element.
    struct Found {
        Index result;
        int in_length;
    };

    template <int V>
    __device__ __forceinline__ Found of(Index place) const {
        Index above = inner.of(place);
        const Index rest = place - above * inner.by;
        int in_length = int(rest) * V;
        if (!has_one) {
            const Index line = above;
            above = r1.of(line);
            in_length = int(line - above * r1.by);
        }
        if (!is_alone) {
            const Index slab = b.of(above);
            above = r2.of(slab) * b.by + (above - slab * b.by);
        }
        return {has_one ? above : above * inner.by + rest, in_length};
    }
};

// Values of the results to which a pack's elements belong: one for each column, or one for all.
template <typename T, int V>
struct OfResult {
    T v[V];

    __device__ __forceinline__ OfResult(const void* values, int64_t at, bool has_one) {
        if (has_one) {
            const T one = static_cast<const T*>(values)[at];
            #pragma unroll
            for (int k = 0; k < V; ++k) v[k] = one;
        } else {
            const Pack<T, V> pack = static_cast<const Pack<T, V>*>(values)[at];
            #pragma unroll
            for (int k = 0; k < V; ++k) v[k] = pack.v[k];
        }
    }
};

template <typename Index>
__device__ __forceinline__ Index first_pack() {
    return Index(block_from_last()) * (kReduceThreads * kTilePacks) + threadIdx.x;
}

template <typename T, int V>
__global__ void __launch_bounds__(kReduceThreads) gradients_of_norm(
    Backward args, Pack<T, V>* __restrict__ dx, Layout<IndexOf<V>> layout) {
    await_earlier();
    const auto* x = static_cast<const Pack<T, V>*>(args.x);
    using Index = IndexOf<V>;
    const Index first = first_pack<Index>();
    Pack<T, V> taken[kTilePacks];
    #pragma unroll
    for (int u = 0; u < kTilePacks; ++u) taken[u] = x[min(Index(first + u * kReduceThreads), Index(layout.packs - 1))];
    #pragma unroll
    for (int u = 0; u < kTilePacks; ++u) {
        const Index place = first + u * kReduceThreads;
        if (place >= layout.packs) return;
        const Index at = layout.template of<V>(place).result;
        const OfResult<T, V> dy(args.dy, at, layout.has_one);
        const OfResult<float, V> norm(args.beside, at, layout.has_one);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float slope = to_float(taken[u].v[k]) * (to_float(dy.v[k]) / norm.v[k]);
            taken[u].v[k] = from_float<T>(norm.v[k] == 0.0f ? 0.0f : slope);  // 0 at a norm of 0, as in torch
        }
        dx[place] = taken[u];
    }
}

// Returns the gradient at an occurrence of the maximum. `code` is from the forward: the index of a unique maximum, or -1 - the
// number of occurrences.
template <typename T>
__device__ __forceinline__ T share_of(int code, T dy) {
    if (code >= 0) return dy;
    return from_float<T>(code == -1 ? NAN : to_float(dy) / float(-1 - code));  // -1: NaN, which equals no element; all get NaN
}

// Returns true if the gradient of the maximum y goes to the element x at index `here` of r1.
__device__ __forceinline__ bool stands(int code, int here, float x, float y) {
    return (code == here) | ((code < 0) & (x == y)) | (code == -1);
}

// Computes dx of amax for c == 1. If the maximum is unique, x is not read: the gradient goes to its index, and is 0 elsewhere.
template <typename T, int V>
__global__ void __launch_bounds__(kReduceThreads) gradients_of_largest(
    Backward args, Pack<T, V>* __restrict__ dx, Layout<IndexOf<V>> layout) {
    await_earlier();
    using Index = IndexOf<V>;
    const auto* x = static_cast<const Pack<T, V>*>(args.x);
    const Index first = first_pack<Index>();
    #pragma unroll
    for (int u = 0; u < kTilePacks; ++u) {
        const Index place = first + u * kReduceThreads;
        if (place >= layout.packs) return;
        const auto found = layout.template of<V>(place);
        const int code = static_cast<const int*>(args.beside)[found.result];
        const T share = share_of(code, static_cast<const T*>(args.dy)[found.result]);
        Pack<T, V> made{};
        float y = 0.0f;
        if (code < 0) made = x[place], y = to_float(static_cast<const T*>(args.y)[found.result]);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            made.v[k] = stands(code, found.in_length + k, to_float(made.v[k]), y) ? share : from_float<T>(0.0f);
        }
        dx[place] = made;
    }
}

// Mapping from items to results. An item, the work of one thread, is kTilePacks rows of one pack of columns.
template <typename Index>
struct Columns {
    Index items;
    Divisor<Index> inner;   // divides by the packs of a row
    Divisor<Index> chunks;  // divides by the groups of kTilePacks rows in r1
    Divisor<Index> b, r2;
};

// Computes dx of amax for c > 1. A thread loads the values of its columns once, and x only if a maximum among them is not
// unique.
template <typename T, int V>
__global__ void __launch_bounds__(kReduceThreads) gradients_of_largest_of_columns(
    Backward args, Pack<T, V>* __restrict__ dx, Columns<IndexOf<V>> columns) {
    await_earlier();
    using Index = IndexOf<V>;
    const Index item = Index(block_from_last()) * kReduceThreads + threadIdx.x;
    if (item >= columns.items) return;
    const Index line = columns.inner.of(item), column = item - line * columns.inner.by;
    const Index run = columns.chunks.of(line), slab = columns.b.of(run);
    const Index result = (columns.r2.of(slab) * columns.b.by + (run - slab * columns.b.by)) * columns.inner.by + column;
    const int first = int(line - run * columns.chunks.by) * kTilePacks, rows = int(args.r1) - first;
    const Index at = (run * Index(args.r1) + first) * columns.inner.by + column;
    const auto code = static_cast<const Pack<int, V>*>(args.beside)[result];
    auto share = static_cast<const Pack<T, V>*>(args.dy)[result];
    int least = code.v[0];
    #pragma unroll
    for (int k = 1; k < V; ++k) least = min(least, code.v[k]);
    Pack<T, V> made[kTilePacks] = {}, y{};
    if (least < 0) {
        const auto* x = static_cast<const Pack<T, V>*>(args.x) + at;
        #pragma unroll
        for (int u = 0; u < kTilePacks; ++u) {
            if (u < rows) made[u] = x[u * columns.inner.by];
        }
        y = static_cast<const Pack<T, V>*>(args.y)[result];
        #pragma unroll
        for (int k = 0; k < V; ++k) share.v[k] = share_of(code.v[k], share.v[k]);
    }
    #pragma unroll
    for (int u = 0; u < kTilePacks; ++u) {
        if (u >= rows) return;
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const bool is_here = stands(code.v[k], first + u, to_float(made[u].v[k]), to_float(y.v[k]));
            made[u].v[k] = is_here ? share.v[k] : from_float<T>(0.0f);
        }
        dx[at + u * columns.inner.by] = made[u];
    }
}

template <typename T, int V>
cudaError_t launch_columns(const Backward& args) {
    using Index = IndexOf<V>;
    const int64_t inner = args.c / V, chunks = divided_up(args.r1, kTilePacks), items = args.a * args.r2 * args.b * chunks * inner;
    const int64_t blocks = divided_up(items, kReduceThreads);
    if (blocks > kMaxGrid) return cudaErrorInvalidValue;
    const Columns<Index> columns = {
        Index(items), Divisor<Index>(inner), Divisor<Index>(chunks), Divisor<Index>(args.b), Divisor<Index>(args.r2)};
    return launched(
        gradients_of_largest_of_columns<T, V>, unsigned(blocks), kReduceThreads, args.stream, args,
        static_cast<Pack<T, V>*>(args.dx), columns);
}

template <typename T, int V>
cudaError_t launch(const Backward& args) {
    if (args.kind == kAmax && args.c > 1) return launch_columns<T, V>(args);
    const int64_t packs = args.a * args.r2 * args.b * args.r1 * args.c / V;
    const int64_t blocks = divided_up(packs, kReduceThreads * kTilePacks);
    if (blocks > kMaxGrid) return cudaErrorInvalidValue;
    const bool has_one = args.c == 1;
    using Index = IndexOf<V>;
    const Layout<Index> layout = {
        Index(packs), Divisor<Index>((has_one ? args.r1 : args.c) / V), Divisor<Index>(args.r1), Divisor<Index>(args.b),
        Divisor<Index>(args.r2), has_one, args.r2 == 1};
    const auto kernel = args.kind == kAmax ? gradients_of_largest<T, V> : gradients_of_norm<T, V>;
    return launched(
        kernel, unsigned(blocks), kReduceThreads, args.stream, args, static_cast<Pack<T, V>*>(args.dx), layout);
}

inline cudaError_t backward(const Backward& args) {
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        const int64_t packs = args.a * args.r2 * args.b * args.r1 * args.c / kVector<T>;
        const bool is_aligned = aligned(args.dx) && aligned(args.dy) && aligned(args.y);
        if (is_aligned && takes_vectors(args, kVector<T>) && is_narrow(packs)) {
            return launch<T, kVector<T>>(args);
        }
        return launch<T, 1>(args);
    });
}

}  // namespace kernelwright::reduction
