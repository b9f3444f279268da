// Sum, maximum, argmax and norm over dimensions of a tensor.
//
// A tensor is viewed as [a, r2, b, r1, c]. r2 and r1 are reduced, and the result is [a, b, c]. One pass reduces r1 from
// the elements, and another reduces r2 from the partial states of the first, unless one pass does both (Plan).
#pragma once

#include "backward.cuh"
#ifndef KW_PORTABLE_ONLY
#include "places_sm90.cuh"
#endif

namespace kernelwright::reduction {

struct Forward {
    const void* x;
    void* y;        // of x's dtype; for kArgmax int64_t indices into r1, with r2 == 1
    // Values for the backward; null if not wanted. kNorm: the norm in float32. kAmax: int32, the index in r1 of a maximum that
    // occurs once (if r2 == 1), else -1 - the number of occurrences.
    void* beside;
    void* workspace;
    int64_t a, r2, b, r1, c;
    int64_t kind;
    double factor;  // the result is multiplied by it
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int64_t kLargestState = 8;  // bytes of the largest state

// Shapes of the passes, and byte offsets in the workspace of their partial states: parts of r1, r1 reduced, parts of r2. If one pass
// over r1 and r2 has enough blocks, only `first` is used.
struct Plan {
    Shape first, second;
    bool is_one;
    int64_t parts, reduced, more, end;  // byte offsets in the workspace

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

// Runs a pass, and if it is split, another pass over its partial states at `parts`.
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

// Returns true if x is read evict-first (streamed.cuh). The backward of a norm reads x again, from the end, so x has to stay in L2.
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
#ifndef KW_PORTABLE_ONLY
    if constexpr (V > 1 && std::is_same_v<Op, PlaceOf>) {
        const int64_t rows = args.a * args.b, packs = args.r1 / V;
        const unsigned threads = args.c == 1 && plan.first.splits > 1 ? place_threads<V>(rows, packs, args.device) : 0;
        if (threads > 0) {
            return launch_places<T, V>(args.x, static_cast<int64_t*>(args.y), rows, packs, threads, args.stream);
        }
    }
#endif
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

// Returns the shape for rows that are no multiple of a pack, but so long that whole packs are most of them. `is_ragged` is false for
// other rows and for rows that are split.
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

}  // namespace kernelwright::reduction
