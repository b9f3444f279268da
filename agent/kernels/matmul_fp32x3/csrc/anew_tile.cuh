// The sums of a tile that is computed anew, in float arithmetic.
//
// Both operands come in spans of 32 depths by asynchronous copies, as they lie. Where a has many values everything is multiplied. Where it
// has few, a comes some spans ahead, so that it is known where its rows have values before b is asked for, of which only that is read; the
// values are multiplied one by one, and which groups of eight depths have any is remembered for the next tile of the same rows.
#pragma once

#include <cuda_pipeline.h>

#include "../../csrc/launched.cuh"
#include "anew.cuh"

namespace kernelwright::matmul {

constexpr int kSpan = 32;          // depths
constexpr int kSpansOfA = 7;       // in shared memory: the one that is multiplied, and what is ahead of it
constexpr int kSpansOfB = 3;
constexpr int kLooksAhead = 3;     // spans whose values are known
constexpr int kGroup = 8;          // depths of which some row of a has a value, or none
constexpr int kGroups = kSpan / kGroup;
constexpr int kMostGroups = 4096;  // that are remembered
constexpr int kSamples = 8;        // of a, of each thread
constexpr int kFewOf = 14;         // a has few values where it is not one in so many
static_assert(kSpan == 32 && kAnewDepth % kSpan == 0);

// 32 depths of a tile's rows, as they lie in memory: rows beside each other, or depths, whose fours are exchanged so that lanes that read
// other rows find other banks.
struct Span {
    static constexpr int kPitch = kSide + 4;
    __align__(16) float v[kSpan * kPitch];

    __device__ __forceinline__ static int place(bool by_rows, int row, int depth) {
        return by_rows ? depth * kPitch + row : row * kSpan + (depth ^ (row & 28));
    }
    __device__ __forceinline__ float at(bool by_rows, int row, int depth) const { return v[place(by_rows, row, depth)]; }
    // Of four neighbours in rows by four in depth.
    template <bool BY_ROWS>
    __device__ __forceinline__ void load(float (&to)[4][4], int row, int depth) const {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float4 four = *reinterpret_cast<const float4*>(v + (BY_ROWS ? place(true, row, depth + i) : place(false, row + i, depth)));
            const float of[4] = {four.x, four.y, four.z, four.w};
            #pragma unroll
            for (int j = 0; j < 4; ++j) (BY_ROWS ? to[j][i] : to[i][j]) = of[j];
        }
    }
};

struct Spans {
    Span a[kSpansOfA], b[kSpansOfB];
    __align__(16) unsigned values[kSpansOfA][kSide];                 // a bit for each depth of a row whose value is not 0
    __align__(16) unsigned of_warps[kSpansOfA][kPlainThreads / 32];  // of all rows of a warp
    uint16_t groups[kMostGroups];                                     // that are multiplied
    int known;                                                        // how many of them, of a's rows; or Known
};

enum Known : int { kNotKnown = -1, kMany = -2 };  // before the first tile of these rows; where a has many values

// Which depths are multiplied, in groups of neighbours: those of a list, or all.
struct Groups {
    const uint16_t* list;  // or null
    int count, begin, end;

    __device__ __forceinline__ int at(int i) const { return i >= count ? end : list == nullptr ? begin + i * kGroup : list[i] * kGroup; }
    __device__ __forceinline__ int spans() const { return static_cast<int>(ceil_div(count, kGroups)); }
};

// A copy of COUNT neighbours, or zeros.
template <int COUNT>
__device__ __forceinline__ void copy(float* to, const float* from, bool is_there) {
    __pipeline_memcpy_async(to, from, COUNT * sizeof(float), is_there ? 0 : COUNT * sizeof(float));
}

// An operand from a tile's first row on, whose values are copied one by one, or by fours where they lie so.
struct Reader {
    const float* values;
    int64_t row_step, depth_step;
    int64_t part;
    int first_row, rows, end;
    bool by_rows, by_fours;

    __device__ __forceinline__ Reader(const Plain& of, int64_t first, int past)
        : values(of.values), row_step(of.row_step), depth_step(of.depth_step), part(of.part), first_row(static_cast<int>(first)),
          rows(static_cast<int>(of.rows)), end(past), by_rows(of.row_step == 1 && of.depth_step != 1) {
        by_fours = (by_rows || depth_step == 1) && (by_rows ? depth_step : row_step) % 4 == 0 && (by_rows ? rows : end) % 4 == 0 &&
                   reinterpret_cast<uintptr_t>(values) % sizeof(float4) == 0 && part == kWhole;
    }
    __device__ __forceinline__ const float* from(int row, int depth, bool there) const {
        return values + (there ? (first_row + row) * row_step + depth * depth_step : 0);
    }
    __device__ __forceinline__ void one(float* to, int row, int depth) const {
        const bool there = first_row + row < rows && depth < end && is_there(part, first_row + row, depth);
        copy<1>(to, from(row, depth, there), there);
    }
    __device__ __forceinline__ void four(float* to, int row, int depth) const {
        const bool there = first_row + row < rows && depth < end;
        copy<4>(to, from(row, depth, there), there);
    }
};

// Which four values of ROWS rows of a span are a thread's, the i-th of kCount.
template <int ROWS>
struct Fours {
    static constexpr int kCount = ROWS / 32, kOfDepth = ROWS / 4;  // threads
    bool by_rows;

    __device__ __forceinline__ int row(int i) const {
        return by_rows ? static_cast<int>(threadIdx.x) % kOfDepth * 4 : i * 32 + static_cast<int>(threadIdx.x) / 8;
    }
    __device__ __forceinline__ int depth(int i) const {
        return by_rows ? i * (kPlainThreads / kOfDepth) + static_cast<int>(threadIdx.x) / kOfDepth : static_cast<int>(threadIdx.x) % 8 * 4;
    }
};

// Copies ROWS rows of a span, but depths of which `needed` has no bit: those are zeros.
template <int ROWS>
__device__ __forceinline__ void copy_span(Span& to, const Reader& of, const Groups& groups, int span, unsigned needed) {
    const Fours<ROWS> fours = {of.by_rows};
    #pragma unroll 1
    for (int i = 0; i < fours.kCount; ++i) {
        const int row = fours.row(i), depth = fours.depth(i);
        const bool wanted = (needed >> depth & (of.by_rows ? 1 : 15)) != 0;
        const int from = wanted ? groups.at(span * kGroups + depth / kGroup) + depth % kGroup : of.end;
        float* four = to.v + Span::place(of.by_rows, row, depth);
        if (of.by_fours) {
            of.four(four, row, from);
        } else {
            #pragma unroll 1
            for (int j = 0; j < 4; ++j) of.one(four + j, of.by_rows ? row + j : row, of.by_rows ? from : from + j);
        }
    }
}

// Copies of one span after the other, with little to be computed for each.
template <int ROWS>
struct Stream {
    const Reader& of;
    const float* from;
    int64_t step, next;  // from a thread's four to the next, and from span to span
    int depth, depth_step, place, place_step;
    unsigned there;      // which of the fours have rows

    __device__ __forceinline__ Stream(const Reader& reader, int begin) : of(reader), there(0) {
        const Fours<ROWS> fours = {of.by_rows};
        depth = begin + fours.depth(0), depth_step = fours.depth(1) - fours.depth(0);
        const int64_t row_step = fours.row(1) - fours.row(0);
        from = of.from(fours.row(0), depth, true);
        step = row_step * of.row_step + depth_step * of.depth_step, next = kSpan * of.depth_step;
        place = Span::place(of.by_rows, fours.row(0), fours.depth(0));
        place_step = Span::place(of.by_rows, fours.row(1), fours.depth(1)) - place;
        #pragma unroll
        for (int i = 0; i < fours.kCount; ++i) there |= of.first_row + fours.row(i) < of.rows ? 1u << i : 0u;
    }
    __device__ __forceinline__ void copy_next(Span& to) {
        #pragma unroll
        for (int i = 0; i < Fours<ROWS>::kCount; ++i) {
            const bool is_there = (there >> i & 1) != 0 && depth + i * depth_step < of.end;
            copy<4>(to.v + place + i * place_step, is_there ? from + i * step : of.values, is_there);
        }
        from += next, depth += kSpan;
    }
};

// Notes where the rows of a span have values.
template <int ROWS>
__device__ __forceinline__ void note_values(Spans& spans, int slot, bool by_rows) {
    constexpr int kOfWarp = ROWS / (kPlainThreads / 32);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Span& a = spans.a[slot];
    unsigned own = 0, all = 0;
    if (by_rows) {
        const int begin = lane / kOfWarp * kOfWarp;  // lanes share the depths of a row out
        #pragma unroll
        for (int i = 0; i < kOfWarp; ++i) {
            const bool has_value = a.at(true, warp * kOfWarp + lane % kOfWarp, begin + i) != 0.0f;
            own |= static_cast<unsigned>(has_value) << (begin + i);
        }
        for (int lanes = 16; lanes >= kOfWarp; lanes /= 2) own |= __shfl_xor_sync(0xffffffffu, own, lanes);
        all = own;
        for (int lanes = kOfWarp / 2; lanes > 0; lanes /= 2) all |= __shfl_xor_sync(0xffffffffu, all, lanes);
    } else {
        #pragma unroll
        for (int i = 0; i < kOfWarp; ++i) {
            const unsigned values = __ballot_sync(0xffffffffu, a.at(false, warp * kOfWarp + i, lane) != 0.0f);
            own = lane == i ? values : own;
            all |= values;
        }
    }
    if (lane < kOfWarp) spans.values[slot][warp * kOfWarp + lane] = own;
    if (lane == 0) spans.of_warps[slot][warp] = all;
}

// The depths that any row has a value at.
__device__ __forceinline__ unsigned values_of(const Spans& spans, int slot) {
    unsigned all = 0;
    #pragma unroll
    for (int i = 0; i < kPlainThreads / 32; ++i) all |= spans.of_warps[slot][i];
    return all;
}

template <int ROWS, bool A_BY_ROWS, bool B_BY_ROWS>
__device__ __forceinline__ void multiply_span(float (&sum)[8][8], const Span& of_a, const Span& of_b, const Corner& at) {
    #pragma unroll 2
    for (int depth = 0; depth < kSpan; depth += 4) {
        float b[2][4][4];
        #pragma unroll
        for (int j = 0; j < 2; ++j) of_b.load<B_BY_ROWS>(b[j], at.column + Corner::step(4 * j), depth);
        #pragma unroll
        for (int i = 0; i < ROWS; i += 4) {
            float a[4][4];
            of_a.load<A_BY_ROWS>(a, at.row + Corner::step(i), depth);
            #pragma unroll
            for (int d = 0; d < 4; ++d) {
                #pragma unroll
                for (int u = 0; u < 32; ++u) sum[i + u / 8][u % 8] = fmaf(a[u / 8][d], b[u % 8 / 4][u % 4][d], sum[i + u / 8][u % 8]);
            }
        }
    }
}

template <int ROWS>
__device__ __forceinline__ void add_up(float (&all)[8][8], float (&sum)[8][8]) {
    #pragma unroll
    for (int i = 0; i < ROWS * 8; ++i) all[i / 8][i % 8] += sum[i / 8][i % 8], sum[i / 8][i % 8] = 0.0f;
}

// All products. Not inlined: what is added up lies in local memory, so that registers are left for what is multiplied.
template <int ROWS, bool A_BY_ROWS, bool B_BY_ROWS, class Meet>
__device__ __noinline__ void sum_all(float (&result)[8][8], Spans& spans, const Reader& a_read, const Reader& b_read, int begin, int end,
                                     const Meet& meet) {
    const Reader of_a = a_read, of_b = b_read;
    constexpr int kStages = kSpansOfB;
    const int count = static_cast<int>(ceil_div(max(end - begin, 0), kSpan));
    const Groups every = {nullptr, count * kGroups, begin, end};
    const Corner at;
    Stream<16 * ROWS> a(of_a, begin);
    Stream<kSide> b(of_b, begin);
    float sum[8][8] = {};
    const auto ask = [&](int i) {
        if (i < count) {
            const int slot = i % kStages;
            if (of_a.by_fours) a.copy_next(spans.a[slot]); else copy_span<16 * ROWS>(spans.a[slot], of_a, every, i, ~0u);
            if (of_b.by_fours) b.copy_next(spans.b[slot]); else copy_span<kSide>(spans.b[slot], of_b, every, i, ~0u);
        }
        __pipeline_commit();
    };
    for (int i = 0; i < kStages - 1; ++i) ask(i);
    #pragma unroll 1
    for (int i = 0; i < count; ++i) {
        __pipeline_wait_prior(kStages - 2);
        meet();  // nobody reads the span before any more
        ask(i + kStages - 1);
        multiply_span<ROWS, A_BY_ROWS, B_BY_ROWS>(sum, spans.a[i % kStages], spans.b[i % kStages], at);
        if ((i + 1) % (kAnewDepth / kSpan) == 0 || i + 1 == count) add_up<ROWS>(result, sum);
    }
    meet();
}

// Of a thread's columns, at one depth.
__device__ __forceinline__ void eight_of(float (&eight)[8], const Span& of_b, bool by_rows, int column, int depth) {
    if (by_rows) return linear::eight_of(eight, of_b.v + Span::place(true, 0, depth), column);
    #pragma unroll
    for (int j = 0; j < 8; ++j) eight[j] = of_b.at(false, column + Corner::step(j), depth);
}

// Row by row the values that there are, whose bits are set; half a warp has the same rows.
template <int ROWS>
__device__ __forceinline__ void multiply_values(float (&sum)[8][8], const Span& of_a, const Span& of_b, bool a_by_rows, bool b_by_rows,
                                                const unsigned* values, const Corner& at) {
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const int row = at.row + Corner::step(i);
        unsigned left = values[row];
        while (left != 0) {  // two at a time, so that one is not waited for alone
            const int first = __ffs(static_cast<int>(left)) - 1;
            left &= left - 1;
            const bool has_two = left != 0;
            const int second = has_two ? __ffs(static_cast<int>(left)) - 1 : first;
            left &= left - 1;
            const float of_first = of_a.at(a_by_rows, row, first), of_second = has_two ? of_a.at(a_by_rows, row, second) : 0.0f;
            float one[8], two[8];
            eight_of(one, of_b, b_by_rows, at.column, first);
            eight_of(two, of_b, b_by_rows, at.column, second);
            #pragma unroll
            for (int j = 0; j < 8; ++j) sum[i][j] = fmaf(of_second, two[j], fmaf(of_first, one[j], sum[i][j]));
        }
    }
}

// The products of values of a that are not 0.
template <int ROWS, class Meet>
__device__ __noinline__ void sum_values(float (&result)[8][8], Spans& spans, const Reader& a_read, const Reader& b_read, int begin, int end,
                                        bool may_list, const Meet& meet) {
    const Reader of_a = a_read, of_b = b_read;
    const bool is_known = may_list && spans.known != kNotKnown, lists = may_list && !is_known;
    const int every = static_cast<int>(ceil_div(max(end - begin, 0), kGroup));
    const Groups groups = {is_known ? spans.groups : nullptr, is_known ? spans.known : every, begin, end};
    const int count = groups.spans();
    const Corner at;
    float sum[8][8] = {};
    #pragma unroll 1
    for (int i = 0; i < kLooksAhead; ++i) {
        if (i < count) copy_span<16 * ROWS>(spans.a[i], of_a, groups, i, ~0u);
        __pipeline_commit();
    }
    int now_a = kSpansOfA - kLooksAhead, now_b = 0, listed = 0;  // where the i-th span lies
    bool has_sums = false;
    #pragma unroll 1
    for (int i = -kLooksAhead; i < count; ++i) {
        __pipeline_wait_prior(1);
        meet();  // nobody reads the span before any more
        const int last_of_a = i + kSpansOfA - 1, last_of_b = i + kSpansOfB - 1;
        if (last_of_a < count) copy_span<16 * ROWS>(spans.a[(now_a + kSpansOfA - 1) % kSpansOfA], of_a, groups, last_of_a, ~0u);
        if (last_of_b >= 0 && last_of_b < count) {
            const unsigned needed = values_of(spans, (now_a + kSpansOfB - 1) % kSpansOfA);
            if (needed != 0) copy_span<kSide>(spans.b[(now_b + kSpansOfB - 1) % kSpansOfB], of_b, groups, last_of_b, needed);
            for (int j = 0; lists && j < kGroups; ++j) {
                if ((needed >> j * kGroup & 0xff) == 0) continue;
                if (threadIdx.x == 0) spans.groups[listed] = static_cast<uint16_t>(begin / kGroup + last_of_b * kGroups + j);
                ++listed;
            }
        }
        __pipeline_commit();
        if (i + kLooksAhead < count) note_values<16 * ROWS>(spans, (now_a + kLooksAhead) % kSpansOfA, of_a.by_rows);
        if (i >= 0 && values_of(spans, now_a) != 0) {
            multiply_values<ROWS>(sum, spans.a[now_a], spans.b[now_b], of_a.by_rows, of_b.by_rows, spans.values[now_a], at);
            has_sums = true;
        }
        if (has_sums && ((i + 1) % (kAnewDepth / kSpan) == 0 || i + 1 == count)) {
            has_sums = false;
            add_up<ROWS>(result, sum);
        }
        now_a = (now_a + 1) % kSpansOfA, now_b = (now_b + 1) % kSpansOfB;
    }
    if (threadIdx.x == 0 && lists) spans.known = listed;
    meet();
}

// Whether a has few values in the first 16 * ROWS rows of a tile, by a sample; by all threads.
template <int ROWS, class Meet>
__device__ __forceinline__ bool has_few(Spans& spans, const Reader& of_a, int begin, int end, const Meet& meet) {
    const int thread = threadIdx.x, row = thread % (16 * ROWS);
    int count = 0;
    #pragma unroll
    for (int i = 0; i < kSamples; ++i) {
        const uint32_t drawn = static_cast<uint32_t>(i * kPlainThreads + thread) * 2654435761u;
        const int depth = begin + static_cast<int>(__umulhi(drawn, static_cast<uint32_t>(end - begin)));
        const bool is_one = of_a.first_row + row < of_a.rows && depth < end && is_there(of_a.part, of_a.first_row + row, depth);
        const bool has_value = is_one && __ldg(of_a.from(row, depth, true)) != 0.0f;
        count += __popc(__ballot_sync(0xffffffffu, has_value));
    }
    if (thread % 32 == 0) spans.of_warps[0][thread / 32] = static_cast<unsigned>(count);
    meet();
    unsigned all = 0;
    #pragma unroll
    for (int i = 0; i < kPlainThreads / 32; ++i) all += spans.of_warps[0][i];
    meet();  // all have added up
    return all * kFewOf < kSamples * kPlainThreads;
}

// The sums of the first 16 * ROWS rows of a tile, by kAnewThreads that meet by `meet`, before and after. `zeros_count`: what meets them may
// not be finite. `spans.known` is of a's rows; all have met since it was set.
template <int ROWS, bool BY_DEPTH = false, class Meet>
__device__ __forceinline__ void sum_anew(float (&all)[8][8], Spans& spans, const Plain& a, const Plain& b, int64_t first_row,
                                         int64_t first_column, bool zeros_count, const Meet& meet) {
    const int begin = static_cast<int>(max(a.begin_in(first_row), b.begin_in(first_column)));
    const int end = static_cast<int>(min(a.end_in(first_row), b.end_in(first_column)));
    const Reader of_a(a, first_row, end), of_b(b, first_column, end);
    if (!zeros_count && spans.known != kMany) {
        const bool may_list = a.part == kWhole && b.part == kWhole && end <= kMostGroups * kGroup;
        if (spans.known != kNotKnown || has_few<ROWS>(spans, of_a, begin, end, meet)) {
            return sum_values<ROWS>(all, spans, of_a, of_b, begin, end, may_list, meet);
        }
        if (threadIdx.x == 0 && may_list) spans.known = kMany;
        meet();
    }
    if (BY_DEPTH) return sum_all<ROWS, false, false>(all, spans, of_a, of_b, begin, end, meet);
    if (of_a.by_rows) {
        if (of_b.by_rows) return sum_all<ROWS, true, true>(all, spans, of_a, of_b, begin, end, meet);
        return sum_all<ROWS, true, false>(all, spans, of_a, of_b, begin, end, meet);
    }
    if (of_b.by_rows) return sum_all<ROWS, false, true>(all, spans, of_a, of_b, begin, end, meet);
    sum_all<ROWS, false, false>(all, spans, of_a, of_b, begin, end, meet);
}

// For a kernel of kAnewThreads that has Spans in its dynamic shared memory.
template <typename... Parameters, typename... Given>
cudaError_t launched_anew(void (*kernel)(Parameters...), unsigned blocks, cudaStream_t stream, Given... given) {
    const auto bytes = static_cast<int>(sizeof(Spans));
    const cudaError_t error =
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    return error == cudaSuccess ? launched_with(kernel, blocks, kAnewThreads, bytes, stream, given...) : error;
}

}  // namespace kernelwright::matmul
