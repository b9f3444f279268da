// Sums, largest values, their places and norms over dimensions of a tensor, and the gradients that are no broadcast.
//
// A tensor is [a, r2, b, r1, c]; r2 and r1 are reduced, and the result is [a, b, c]. r1 is reduced from the elements,
// r2 from the states that this leaves.
#pragma once

#include <type_traits>

#include "../../csrc/divisor.cuh"
#include "../../csrc/reduce.cuh"

namespace kernelwright::reduction {

enum Kind : int64_t { kSum = 0, kAmax = 1, kArgmax = 2, kNorm = 3 };

struct Forward {
    const void* x;
    void* y;        // of x's type; int64_t for places, which are in r1, with r2 == 1
    // kNorm: the norm in float32; kAmax: int32, the place in r1 where it stands once (with r2 == 1), else -1 - how often; null
    // where it is not wanted.
    void* beside;
    void* workspace;
    int64_t a, r2, b, r1, c;
    int64_t kind;
    double factor;  // of the result
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

// kAmax: dx = dy / how often where x == y, else 0; kNorm: dx = dy * x / beside, 0 where that is 0.
struct Backward {
    const void* dy;  // [a, b, c]
    const void* x;
    const void* y;
    const void* beside;  // as Forward's
    void* dx;
    int64_t a, r2, b, r1, c;
    int64_t kind;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int64_t kLargestState = 8;
constexpr int kTilePacks = 4;  // that a thread of the backward direction has under way

// The places in the workspace of what the passes leave: parts of r1, r1 reduced, parts of r2. Where it makes enough blocks r1 and
// r2 are one pass, and `first` alone counts.
struct Plan {
    Shape first, second;
    bool is_one;
    int64_t parts, reduced, more, end;  // bytes

    Plan(const Forward& args, const Shape& of_elements, const Shape& of_both) : first(of_elements) {
        is_one = args.r2 == 1;
        if (of_both.segments > 1 && of_both.blocks * of_both.splits >= kColumnBlocks / 2) {
            is_one = true, first = of_both;
        }
        const int64_t rows = is_one ? args.a * args.b : args.a * args.r2 * args.b;
        second = shape_for<1>(args.a, args.r2, args.b * args.c, 0, true);
        parts = 0;
        reduced = parts + (first.splits > 1 ? rows * first.splits * args.c : 0) * kLargestState;
        more = reduced + (is_one ? 0 : rows * args.c) * kLargestState;
        end = more + (!is_one && second.splits > 1 ? args.a * second.splits * args.b * args.c : 0) * kLargestState;
    }
};

template <int V>
Plan plan_of(const Forward& args) {
    const Shape of_elements = shape_for<V>(args.a * args.r2 * args.b, args.r1, args.c);
    if (V == 1 || args.c > 1 || args.r2 == 1) return Plan(args, of_elements, of_elements);
    return Plan(args, of_elements, shape_of_segments<V>(args.a, args.r2, args.b, args.r1));
}

// A pass, and one over its parts where there are several, which lie at `parts`.
template <typename Op, typename In, int V>
cudaError_t reduced(
    const void* x, const Shape& shape, Partial<Op>* parts, const Reduced<Op>& out, cudaStream_t stream,
    int64_t columns) {
    if (shape.splits == 1) return reduce_pass<Op, In, V>(x, shape, out, stream);
    const cudaError_t status = reduce_pass<Op, In, V>(x, shape, {parts, nullptr, nullptr, 1.0f, 0, false}, stream);
    if (status != cudaSuccess) return status;
    const Shape rest = shape_for<1>(shape.outer, shape.splits, columns, 0, true).unsplit();
    return reduce_pass<Op, Partial<Op>, 1>(parts, rest, out, stream);
}

template <typename Op>
Reduced<Op> last_of(const Forward& args) {
    return {nullptr, args.y, args.beside, float(args.factor), args.dtype, args.r2 == 1};
}

// The gradient of a norm reads x again, from the end.
template <typename T>
bool streams(const Forward& args) {
    const bool is_read_again = args.kind == kNorm && args.beside != nullptr;
    return !is_read_again && is_streamed(args.a * args.r2 * args.b * args.r1 * args.c * int64_t{sizeof(T)}, args.device);
}

template <typename Op, typename T, int V>
cudaError_t forward_as(const Forward& args) {
    static_assert(sizeof(Partial<Op>) <= kLargestState);
    Plan plan = plan_of<V>(args);
    plan.first.streams = streams<T>(args);
    auto* room = static_cast<char*>(args.workspace);
    const auto at = [&](int64_t bytes) { return reinterpret_cast<Partial<Op>*>(room + bytes); };
    const Reduced<Op> last = last_of<Op>(args);
    if (plan.is_one) return reduced<Op, T, V>(args.x, plan.first, at(plan.parts), last, args.stream, args.c);
    const Reduced<Op> left = {at(plan.reduced), nullptr, nullptr, 1.0f, 0, false};
    const cudaError_t status = reduced<Op, T, V>(args.x, plan.first, at(plan.parts), left, args.stream, args.c);
    if (status != cudaSuccess) return status;
    return reduced<Op, Partial<Op>, 1>(
        at(plan.reduced), plan.second, at(plan.more), last, args.stream, args.b * args.c);
}

template <typename Arguments>
bool takes_vectors(const Arguments& args, int64_t vector) {
    return aligned(args.x) && (args.c == 1 ? args.r1 : args.c) % vector == 0;
}

// Rows that are no whole packs, but long enough for these to be most of them; not `is_ragged` where they are others, or are split.
template <int V>
Shape ragged_shape(const Forward& args) {
    Shape shape = shape_for<V>(args.a * args.b, args.r1, 1);
    const bool is_long = args.r1 >= V * kWarp * kShortPacks && args.r1 <= kMaxPart;
    shape.is_ragged = aligned(args.x) && args.c == 1 && args.r2 == 1 && shape.splits == 1 && is_long;
    shape.length = args.r1;
    return shape;
}

inline int64_t forward_workspace(const Forward& args) {
    const int64_t vector = args.dtype == kFloat32 ? kVector<float> : kVector<__half>;
    if (!takes_vectors(args, vector)) {
        const bool is_ragged = vector == kVector<float> ? ragged_shape<kVector<float>>(args).is_ragged
                                                        : ragged_shape<kVector<__half>>(args).is_ragged;
        return is_ragged ? 0 : plan_of<1>(args).end;
    }
    return args.dtype == kFloat32 ? plan_of<kVector<float>>(args).end : plan_of<kVector<__half>>(args).end;
}

template <typename Op>
cudaError_t forward_of(const Forward& args) {
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (takes_vectors(args, kVector<T>)) return forward_as<Op, T, kVector<T>>(args);
        if (Shape shape = ragged_shape<kVector<T>>(args); shape.is_ragged) {
            shape.streams = streams<T>(args);
            return reduce_pass<Op, T, kVector<T>>(args.x, shape, last_of<Op>(args), args.stream);
        }
        return forward_as<Op, T, 1>(args);
    });
}

inline cudaError_t forward(const Forward& args) {
    const bool is_counted = args.kind == kArgmax || args.kind == kAmax;
    if (is_counted && args.r1 * args.r2 > 0x7fffffff) return cudaErrorInvalidValue;
    if (args.kind == kSum) return forward_of<SumOf>(args);
    if (args.kind == kAmax && args.beside == nullptr) return forward_of<LargestOf>(args);
    if (args.kind == kAmax) return forward_of<LargestAndPlaceOf>(args);
    if (args.kind == kNorm) return forward_of<SquaresOf>(args);
    if (args.kind != kArgmax || args.r2 != 1) return cudaErrorInvalidValue;
    return forward_of<PlaceOf>(args);
}

// Of the places of packs: what has more vectors than 32 bits count is taken element by element.
template <int V>
using IndexOf = std::conditional_t<V == 1, int64_t, unsigned>;

// How the elements of x lie to the results, in packs; where c is 1 a pack has one result for all of its elements.
template <typename Index>
struct Layout {
    Index packs;
    Divisor<Index> inner;  // packs of a result's row, or where c is 1 of r1
    Divisor<Index> r1, b, r2;
    bool has_one, is_alone;  // c is 1, r2 is 1

    // Of the pack `place`: which result it belongs to, or pack of results, and the place in r1 of its first element.
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

// What belongs to the elements of a pack: a value of each column, or one for all.
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

// The first pack of a thread. The last packs come first: they are what the forward direction read last, and L2 still has
// them where nothing came between.
template <typename Index>
__device__ __forceinline__ Index first_pack() {
    return Index(gridDim.x - 1 - blockIdx.x) * (kReduceThreads * kTilePacks) + threadIdx.x;
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
            taken[u].v[k] = from_float<T>(norm.v[k] == 0.0f ? 0.0f : slope);  // of a norm of 0 as torch has it
        }
        dx[place] = taken[u];
    }
}

// A pack whose results have their place each is not read: the gradient is there, and 0 elsewhere.
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
        const OfResult<int, V> code(args.beside, found.result, layout.has_one);
        const OfResult<T, V> dy(args.dy, found.result, layout.has_one);
        int least = code.v[0];
        #pragma unroll
        for (int k = 1; k < V; ++k) least = min(least, code.v[k]);
        Pack<T, V> made;
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const int here = found.in_length + (layout.has_one ? k : 0);
            made.v[k] = code.v[k] == here ? dy.v[k] : from_float<T>(0.0f);
        }
        if (least < 0) {
            const Pack<T, V> taken = x[place];
            const OfResult<T, V> y(args.y, found.result, layout.has_one);
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                if (code.v[k] >= 0) continue;
                const bool stands = to_float(taken.v[k]) == to_float(y.v[k]);
                const float share = to_float(dy.v[k]) / float(-1 - code.v[k]);
                made.v[k] = from_float<T>(code.v[k] == -1 ? NAN : stands ? share : 0.0f);  // a NaN stands nowhere
            }
        }
        dx[place] = made;
    }
}

template <typename T, int V>
cudaError_t launch(const Backward& args) {
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
