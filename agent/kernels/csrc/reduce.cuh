// Reductions of [outer, length, inner] over length, in a fixed order.
//
// With inner == 1, a team of up to 256 threads handles a row. Otherwise a thread handles neighbouring columns, so that
// every load is coalesced, and the threads above each other share the length. Where that gives too few blocks, the
// length is split: each block writes its state, and a second pass merges the states.
#pragma once

#include <cstring>
#include <type_traits>

#include "block.cuh"
#include "launched.cuh"
#include "reduce_states.cuh"
#include "streamed.cuh"

namespace kernelwright {

constexpr int kReduceThreads = 256;
constexpr int64_t kReduceBlocks = 2048;  // blocks; they fill every GPU
constexpr int64_t kFewReduced = 8;       // up to this many results are split into more, shorter parts, so that SMs end together
constexpr int kColumnThreads = 512;       // maximum block size for columns
constexpr int kLeastColumnThreads = 128;  // minimum block size, if there are enough columns
constexpr int kFewLines = 4;              // lines of states above each other that one thread merges
constexpr int64_t kColumnBlocks = 256;    // all resident on 128 SMs; more blocks cost more than the latency they hide
constexpr int64_t kOnePass = 4;           // up to this multiple of a block's in-flight elements, one pass is as fast as two
constexpr int64_t kMaxSplits = 8192;
constexpr int kShortPacks = 4;         // packs per thread: one each of four rows, or all of one row
constexpr int64_t kManyRows = 16384;  // rows of single elements for which a warp per row fills every GPU
constexpr int64_t kMaxPart = 1 << 30;  // packs or elements of a column, which are counted in int

template <int V>
constexpr int kReducePacks = V == 1 ? 16 : 4;  // packs that a thread has in flight

// State that one pass writes for the next. It has a type of its own, so that it differs from every element type.
template <typename Op>
struct Partial {
    typename Op::State state;
};

// Destination of the results: states of a part, or final values.
template <typename Op>
struct Reduced {
    Partial<Op>* states;  // partial results; null in the last pass
    void* values;         // results of type `dtype`, or int64_t indices
    void* beside;         // residual for the gradient, of the type that `Op` defines; null if not wanted
    float factor;
    int64_t dtype;
    bool is_placed;       // true if an index into the length identifies an element

    __device__ __forceinline__ void put(int64_t at, typename Op::State state) const {
        if (states != nullptr) {
            states[at] = {state};
        } else if constexpr (std::is_same_v<Op, PlaceOf>) {
            static_cast<int64_t*>(values)[at] = state.place;
        } else {
            const float value = Op::result(state) * factor;
            if (is_compiled(kFloat32) && dtype == kFloat32) static_cast<float*>(values)[at] = value;
            if (is_compiled(kFloat16) && dtype == kFloat16) static_cast<__half*>(values)[at] = from_float<__half>(value);
            if (is_compiled(kBFloat16) && dtype == kBFloat16) static_cast<__nv_bfloat16*>(values)[at] = from_float<__nv_bfloat16>(value);
            const auto kept = Op::beside(state, is_placed);
            if (beside != nullptr) static_cast<std::remove_const_t<decltype(kept)>*>(beside)[at] = kept;
        }
    }
};

template <typename State>
__device__ __forceinline__ State shuffled(State state, int offset) {
    static_assert(sizeof(State) % sizeof(int) == 0);
    int words[sizeof(State) / sizeof(int)];
    memcpy(words, &state, sizeof(State));
    #pragma unroll
    for (int& word : words) word = __shfl_xor_sync(0xffffffff, word, offset);
    memcpy(&state, words, sizeof(State));
    return state;
}

template <typename Op, typename T>
__device__ __forceinline__ void take_one(typename Op::State& all, const T& value, int place) {
    if constexpr (std::is_same_v<T, Partial<Op>>) {
        all = Op::merge(all, value.state);
    } else {
        Op::take(all, to_float(value), place);
    }
}

// Reduces a thread's share of a part: i = first, first + step, ... below end, with its packs at x[i * stride]; `first`
// is below `step`. The part begins at element `origin` of the length. Along it a pack is one element if `across` (V
// columns), else V.
template <typename Op, typename In, int V>
__device__ __forceinline__ void take_packs(
    typename Op::State (&mine)[V], const Pack<In, V>* x, int64_t stride, int first, int end, int step, int origin,
    bool across, const Streamed& reads) {
    constexpr int kMost = 64 / int(sizeof(Pack<In, V>));  // packs that take 16 registers
    constexpr int kPacks = kReducePacks<V> < kMost ? kReducePacks<V> : kMost;
    const int64_t hop = step * stride;
    x += first * stride;
    for (int begin = 0; begin < end; begin += kPacks * step) {  // same trip count for all threads of a part
        Pack<In, V> packs[kPacks];  // all loads are issued before the first use
        #pragma unroll
        for (int u = 0; u < kPacks; ++u, x += hop) {
            if (begin + first + u * step < end) packs[u] = reads.load(x);
        }
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            const int i = begin + first + u * step;
            if (i >= end) continue;
            #pragma unroll
            for (int k = 0; k < V; ++k) take_one<Op>(mine[k], packs[u].v[k], origin + (across ? i : i * V + k));
        }
    }
}

inline int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Plan of a pass over rows of `length` packs, or over columns, `inner` packs of which are side by side.
struct Shape {
    bool by_rows;
    int64_t outer, length, inner;
    int width;  // threads side by side in a row or across columns
    int64_t blocks, splits;
    int height = 1;  // for columns: threads above each other
    // For rows of several segments: the number of segments, the rows between two segments of a result (`neighbours`),
    // and the groups of threads that share the segments. Parts are then counted in segments.
    int64_t segments = 1, neighbours = 1;
    int share = 1;
    bool is_ragged = false;  // rows of `length` elements that are not whole packs
    bool streams = false;    // x is read with evict-first

    int64_t part() const { return divided_up(segments > 1 ? segments : length, splits); }

    // For rows: returns true if a thread can have all its packs in flight, one pack each of four rows or `most` packs
    // of one row.
    bool is_short(int64_t most) const {
        return splits == 1 && segments == 1 && !is_ragged && width <= kWarp && length <= most * width;
    }

    Shape unsplit() const {
        Shape whole = *this;
        whole.splits = 1;
        return whole;
    }
};

// Reduces rows. A block handles as many rows as it has teams of width * share threads (a power of two), or a part of
// one row.
template <typename Op, typename T, int V, bool SEGMENTS>
__global__ void __launch_bounds__(kReduceThreads, 4) reduce_rows(
    const Pack<T, V>* x, Reduced<Op> out, Shape shape, int64_t part) {
    await_earlier();
    using State = typename Op::State;
    __shared__ State of_warp[kReduceThreads / kWarp];
    const int team = shape.width * (SEGMENTS ? shape.share : 1), shift = __ffs(team) - 1;
    const int own = int(threadIdx.x) & (team - 1), lane = own & (shape.width - 1);
    const int64_t row = blockIdx.x * int64_t{kReduceThreads >> shift} + (int(threadIdx.x) >> shift);
    const int64_t begin = blockIdx.y * part;
    const Streamed reads(shape.streams);
    int origin = int(begin * V);
    State mine[V], ends = Op::identity();
    #pragma unroll
    for (State& one : mine) one = Op::identity();
    if constexpr (SEGMENTS) {
        const int64_t stride = shape.neighbours * shape.length, end = min(begin + part, shape.segments);
        x += row / shape.neighbours * (shape.segments - 1) * stride + row * shape.length;
        for (int64_t i = begin + own / shape.width; i < end && row < shape.outer; i += shape.share) {
            take_packs<Op>(mine, x + i * stride, 1, lane, int(shape.length), shape.width, 0, false, reads);
        }
    } else {
        int size = row < shape.outer ? int(min(shape.length - begin, part)) : 0;
        if (V > 1 && shape.is_ragged) {  // one thread each for the elements in front of and behind the whole packs
            const auto* elements = reinterpret_cast<const T*>(x) + row * shape.length;
            const int before = min(int(-(row * shape.length) & (V - 1)), size), behind = before + (size - before) / V * V;
            if (lane < before) take_one<Op>(ends, elements[lane], lane);
            if (lane < size - behind) take_one<Op>(ends, elements[behind + lane], behind + lane);
            x = reinterpret_cast<const Pack<T, V>*>(elements + before);
            origin = before, size = (size - before) / V;
        } else {
            x += row * shape.length + begin;
        }
        take_packs<Op>(mine, x, 1, lane, size, shape.width, origin, false, reads);
    }
    let_next_begin();
    State all = Op::merge(Op::settled(ends), Op::settled(mine[0]));
    #pragma unroll
    for (int k = 1; k < V; ++k) all = Op::merge(all, Op::settled(mine[k]));
    for (int offset = min(team, kWarp) / 2; offset > 0; offset /= 2) all = Op::merge(all, shuffled(all, offset));
    if (team > kWarp) {
        if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = all;
        __syncthreads();
        if (own == 0) {
            for (int other = 1; other < team / kWarp; ++other) {
                all = Op::merge(all, of_warp[threadIdx.x / kWarp + other]);
            }
        }
    }
    if (row < shape.outer && own == 0) out.put(row * gridDim.y + blockIdx.y, all);
}

// Reduces rows of up to `group` packs, a power of two up to the warp. A thread handles a pack of each of four rows.
// With `is_one` a row has up to four times as many packs, and a thread handles four packs of one row. Either way all
// packs are in flight at once.
template <typename Op, typename T, int V>
__global__ void __launch_bounds__(kReduceThreads) reduce_short_rows(
    const Pack<T, V>* x, Reduced<Op> out, int64_t rows, int packs, int group, bool is_one, bool streams) {
    await_earlier();
    const Streamed reads(streams);
    using State = typename Op::State;
    constexpr int kPacks = kShortPacks;
    const int shift = __ffs(group) - 1, height = kReduceThreads >> shift, place = int(threadIdx.x) & (group - 1);
    const int row_step = is_one ? 0 : height, place_step = is_one ? group : 0;
    const int64_t first = blockIdx.x * int64_t{is_one ? height : kPacks * height} + (int(threadIdx.x) >> shift);
    Pack<T, V> taken[kPacks];
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        const int64_t row = first + u * row_step;
        const int own = place + u * place_step;
        if (row < rows && own < packs) taken[u] = reads.load(x + row * packs + own);
    }
    let_next_begin();
    State all[kPacks];
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        all[u] = Op::identity();
        const int own = place + u * place_step;
        if (own < packs) {
            #pragma unroll
            for (int k = 0; k < V; ++k) take_one<Op>(all[u], taken[u].v[k], own * V + k);
        }
        all[u] = Op::settled(all[u]);
    }
    if (is_one) {
        State state = Op::merge(Op::merge(all[0], all[1]), Op::merge(all[2], all[3]));
        for (int offset = group / 2; offset > 0; offset /= 2) state = Op::merge(state, shuffled(state, offset));
        if (place == 0 && first < rows) out.put(first, state);
        return;
    }
    for (int offset = group / 2; offset > 0; offset /= 2) {
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) all[u] = Op::merge(all[u], shuffled(all[u], offset));
    }
    // Distributes the stores: every thread of a group has the results of all rows of the group, and writes some of
    // them.
    for (int own = place; own < kPacks; own += group) {
        State state = all[0];
        #pragma unroll
        for (int u = 1; u < kPacks; ++u) state = own == u ? all[u] : state;
        if (first + own * height < rows) out.put(first + own * height, state);
    }
}

// Reduces columns. A block is `width` packs of columns wide, a power of two. In is a storage type, or Partial.
template <typename Op, typename In, int V>
__global__ void __launch_bounds__(kColumnThreads, 2) reduce_columns(
    const Pack<In, V>* x, Reduced<Op> out, int64_t length, int64_t packs, int64_t part, int width, bool streams) {
    await_earlier();
    using State = typename Op::State;
    extern __shared__ __align__(16) unsigned char room[];
    auto* shared = reinterpret_cast<State*>(room);  // [V][threads]
    const int threads = int(blockDim.x), shift = __ffs(width) - 1;
    const int above = int(threadIdx.x) >> shift, height = threads >> shift;
    const unsigned groups = unsigned((packs + width - 1) >> shift);
    const int64_t outer = blockIdx.x / groups;
    const int64_t column = blockIdx.x % groups * int64_t{width} + (int(threadIdx.x) & (width - 1));
    const int64_t begin = blockIdx.y * part;
    const int size = column < packs ? int(min(length - begin, part)) : 0;
    State mine[V];
    #pragma unroll
    for (State& one : mine) one = Op::identity();
    x += (outer * length + begin) * packs + column;
    take_packs<Op>(mine, x, packs, above, size, height, int(begin), true, Streamed(streams));
    let_next_begin();
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        shared[k * threads + threadIdx.x] = std::is_same_v<In, Partial<Op>> ? mine[k] : Op::settled(mine[k]);
    }
    __syncthreads();
    int lines = height;
    for (; lines > kFewLines; lines /= 2) {
        for (int k = 0; k < V && above < lines / 2; ++k) {
            State& own = shared[k * threads + threadIdx.x];
            own = Op::merge(own, shared[k * threads + threadIdx.x + lines / 2 * width]);
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < V * width; i += threads) {
        const int k = i >> shift, lane = i & (width - 1);
        const int64_t own = blockIdx.x % groups * int64_t{width} + lane;
        if (own >= packs) continue;
        State all = shared[k * threads + lane];
        #pragma unroll 4
        for (int line = 1; line < lines; ++line) all = Op::merge(all, shared[k * threads + line * width + lane]);
        out.put(((outer * gridDim.y + blockIdx.y) * packs + own) * V + k, all);
    }
}

// Returns the least power of two that is at least `count`, but at most the warp.
inline int power_for(int64_t count) {
    int power = 1;
    while (power < kWarp && power < count) power *= 2;
    return power;
}

// Returns the number of parts for a length that threads handle `each` packs at a time, up to `most`. Splits from twice
// that length on. No part is longer than `each` if `most` allows it, and none is empty.
inline int64_t splits_for(int64_t length, int64_t each, int64_t most) {
    const int64_t splits = length < 2 * each ? 1 : std::min({most, divided_up(length, each), kMaxSplits});
    return splits < 2 ? 1 : divided_up(length, divided_up(length, splits));
}

// Returns the threads for a row, with up to `each` packs in flight per thread. At least a few are side by side, so that
// loads are coalesced.
inline int row_width(int64_t packs, int64_t each, int least) {
    int width = std::min(power_for(packs), least);
    while (width < kReduceThreads && width * each < packs) width *= 2;
    return width;
}

// Plans a pass over [outer, length, columns]. A pack is V columns, or V elements of the length if columns is 1. Lengths
// are split for at least `wanted` blocks; 0 selects the default for reductions. States of an earlier pass always go by
// columns.
template <int V>
Shape shape_for(int64_t outer, int64_t length, int64_t columns, int64_t wanted = 0, bool of_partials = false) {
    constexpr int kEach = kReducePacks<V>;
    if (columns == 1 && !of_partials) {
        const int64_t packs = length / V;
        int width = row_width(packs, kEach, V == 1 ? 8 : 4);
        if (V == 1 && outer >= kManyRows) width = std::min(width, kWarp);
        const int64_t blocks = divided_up(outer, kReduceThreads / width);
        const int64_t reduced = blocks <= kFewReduced ? kMaxSplits : kReduceBlocks;
        const int64_t most = divided_up(wanted > 0 ? wanted : reduced, blocks);
        const int64_t splits = width < kReduceThreads ? 1 : splits_for(packs, width * kEach, most);
        return {true, outer, packs, 1, width, blocks, splits};
    }
    const int64_t packs = columns / V;
    int width = power_for(packs), height = 1;
    const int64_t least = of_partials ? kFewLines : kEach;  // minimum number of rows of a thread
    while (height * width < kColumnThreads && 2 * height * least <= length) height *= 2;
    while (wanted == 0 && height * width < kLeastColumnThreads && width < packs) width *= 2;
    const int64_t blocks = outer * divided_up(packs, width), each = height * kEach;
    const bool is_one = wanted == 0 && length <= kOnePass * each;
    const int64_t most = wanted > 0 ? divided_up(wanted, blocks) : kColumnBlocks / blocks;
    return {false, outer, length, packs, width, blocks, is_one ? 1 : splits_for(length, each, most), height};
}

template <typename Op, int V>
constexpr bool takes_segments = V > 1 && !std::is_same_v<Op, PlaceOf>;

// Plans a pass over [a, segments, b, r1], reduced over segments and r1. A block computes a whole result or a part of
// its segments.
template <int V>
Shape shape_of_segments(int64_t a, int64_t segments, int64_t b, int64_t r1) {
    const int64_t packs = r1 / V, results = a * b;
    const int width = std::min(row_width(packs, kReducePacks<V>, 4), kWarp), share = kReduceThreads / width;
    const int64_t splits = splits_for(segments, share, kColumnBlocks / results);
    return {true, results, packs, 1, width, results, splits, 1, segments, b, share};
}

// Launches a pass over x without segments and without short rows. out.states receives the states if there are several
// parts.
template <typename Op, typename In, int V>
cudaError_t reduce_plain_pass(const void* x, const Shape& shape, const Reduced<Op>& out, cudaStream_t stream) {
    if (shape.blocks > kMaxGrid || shape.part() > kMaxPart) return cudaErrorInvalidValue;
    const dim3 grid(unsigned(shape.blocks), unsigned(shape.splits));
    const auto* packs = static_cast<const Pack<In, V>*>(x);
    if constexpr (!std::is_same_v<In, Partial<Op>>) {
        if (shape.by_rows) {
            return launched(
                reduce_rows<Op, In, V, false>, grid, kReduceThreads, stream, packs, out, shape, shape.part());
        }
    }
    const int threads = shape.width * shape.height;
    return launched_with(
        reduce_columns<Op, In, V>, grid, threads, V * threads * sizeof(typename Op::State), stream, packs, out, shape.length,
        shape.inner, shape.part(), shape.width, shape.streams);
}

// Launches a pass over x of any shape.
template <typename Op, typename In, int V>
cudaError_t reduce_pass(const void* x, const Shape& shape, const Reduced<Op>& out, cudaStream_t stream) {
    if (shape.blocks > kMaxGrid || shape.part() > kMaxPart) return cudaErrorInvalidValue;
    const auto* packs = static_cast<const Pack<In, V>*>(x);
    if constexpr (!std::is_same_v<In, Partial<Op>>) {
        // With V == 1, single elements are too little work for a thread.
        if (shape.by_rows && shape.is_short(V > 1 ? kShortPacks : 1)) {
            const bool is_one = shape.length > shape.width;
            const int64_t each = (is_one ? 1 : kShortPacks) * (kReduceThreads / shape.width);
            const unsigned blocks = unsigned(divided_up(shape.outer, each));
            return launched(
                reduce_short_rows<Op, In, V>, blocks, kReduceThreads, stream, packs, out, shape.outer, int(shape.length),
                shape.width, is_one, shape.streams);
        }
        if constexpr (takes_segments<Op, V>) {
            if (shape.segments > 1) {
                const dim3 grid(unsigned(shape.blocks), unsigned(shape.splits));
                return launched(
                    reduce_rows<Op, In, V, true>, grid, kReduceThreads, stream, packs, out, shape, shape.part());
            }
        }
    }
    return reduce_plain_pass<Op, In, V>(x, shape, out, stream);
}

}  // namespace kernelwright
