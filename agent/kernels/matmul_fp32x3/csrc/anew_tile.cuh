// The sums of a recomputed tile, in float arithmetic.
//
// Both operands are copied in spans of 32 depths, in their memory order. If a has many nonzero values, all values are multiplied. If a has
// few, it is copied some spans ahead, so that b is read only where rows of a are nonzero. The nonzero values are then multiplied one by
// one. The groups of eight depths with any nonzero value are remembered for the next tile of the same rows.
#pragma once

#include "../../csrc/launched.cuh"
#include "anew.cuh"
#include "spans.cuh"

namespace kernelwright::matmul {

constexpr int kSamples = 8;  // sampled values of a per thread
constexpr int kFewOf = 20, kFewOfDeep = 50;  // a has few if under one in 20 is nonzero, or in 50 if b is not contiguous along rows
static_assert(kAnewDepth % kSpan == 0 && sizeof(Slices) <= sizeof(Spans::a));

template <int ROWS, bool A_BY_ROWS, bool B_BY_ROWS>
__device__ __forceinline__ void multiply_span(float (&sum)[8][8], const Span& of_a, const Span& of_b, const Corner& at) {
    constexpr int kAtOnce = ROWS == 8 && (A_BY_ROWS || B_BY_ROWS) ? 2 : 1;  // unrolling, as measured to be fastest
    #pragma unroll kAtOnce
    for (int depth = 0; depth < kSpan; depth += 4) {
        float b[2][4][4];
        #pragma unroll
        for (int j = 0; j < 2; ++j) of_b.load<B_BY_ROWS>(b[j], at.column + Corner::step(4 * j), depth);
        #pragma unroll
        for (int i = 0; i < ROWS; i += 4) {
            float a[4][4];
            of_a.load<A_BY_ROWS>(a, at.row + Corner::step(i), depth);
            #pragma unroll
            for (int r = 0; r < 4; ++r) {
                #pragma unroll
                for (int u = 0; u < 32; ++u) sum[i + r][u % 8] = fmaf(a[r][u / 8], b[u % 8 / 4][u % 4][u / 8], sum[i + r][u % 8]);
            }
        }
    }
}

template <int ROWS>
__device__ __forceinline__ void add_up(float (&all)[8][8], float (&sum)[8][8]) {
    #pragma unroll
    for (int i = 0; i < ROWS * 8; ++i) all[i / 8][i % 8] += sum[i / 8][i % 8], sum[i / 8][i % 8] = 0.0f;
}

// Sums all products, for operands that allow copies of float4. Not inlined: the totals then stay in local memory and leave registers free.
template <int ROWS, bool A_BY_ROWS, bool B_BY_ROWS, class Meet>
__device__ __noinline__ void sum_all(float (&result)[8][8], Spans& spans, const Reader& a_read, const Reader& b_read, int begin, int end,
                                     const Meet& meet) {
    const Reader of_a = a_read, of_b = b_read;
    constexpr int kStages = kSpansOfB;
    const int count = static_cast<int>(ceil_div(max(end - begin, 0), kSpan));
    const Corner at;
    Stream<16 * ROWS> a(of_a, begin);
    Stream<kSide> b(of_b, begin);
    float sum[8][8] = {};
    const auto ask = [&](int i) {
        if (i < count) {
            const int slot = i % kStages;
            a.copy_next(spans.a[slot]), b.copy_next(spans.b[slot]);
        }
        __pipeline_commit();
    };
    for (int i = 0; i < kStages - 1; ++i) ask(i);
    #pragma unroll 1
    for (int i = 0; i < count; ++i) {
        __pipeline_wait_prior(kStages - 2);
        meet();  // all threads are done with the previous span
        ask(i + kStages - 1);
        multiply_span<ROWS, A_BY_ROWS, B_BY_ROWS>(sum, spans.a[i % kStages], spans.b[i % kStages], at);
        if ((i + 1) % (kAnewDepth / kSpan) == 0 || i + 1 == count) add_up<ROWS>(result, sum);
    }
    meet();
}

// Sums all products for operands of any layout, by slices of 8 depths.
template <class Meet>
__device__ __noinline__ void sum_slices(float (&result)[8][8], Slices& slices, const Plain& a, const Plain& b, int64_t first_row,
                                        int64_t first_column, int begin, int end, const Meet& meet) {
    for (int from = begin; from < end; from += kAnewDepth) {
        float sum[8][8] = {};
        multiply_range(sum, slices, a, b, first_row, first_column, from, min(from + kAnewDepth, end), meet);
        add_up<8>(result, sum);
    }
}

// Loads the values of a thread's eight columns at one depth.
__device__ __forceinline__ void eight_of(float (&eight)[8], const Span& of_b, bool by_rows, int column, int depth) {
    if (by_rows) return linear::eight_of(eight, of_b.v + Span::place(true, 0, depth), column);
    #pragma unroll
    for (int j = 0; j < 8; ++j) eight[j] = of_b.at(false, column + Corner::step(j), depth);
}

// Multiplies a's nonzero values, given by bits, row by row. The lanes of half a warp share the same rows.
__device__ __forceinline__ void multiply_values(float (&sum)[8][8], const Span& of_a, const Span& of_b, bool a_by_rows, bool b_by_rows,
                                                const unsigned* values, const Corner& at) {
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = at.row + Corner::step(i);
        unsigned left = values[row];
        while (left != 0) {  // two at a time, to overlap their latency
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

// Sums the products of a's nonzero values.
template <class Meet>
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
        if (i < count) copy_span<kSide>(spans.a[i], of_a, groups, i, ~0u);
        __pipeline_commit();
    }
    int now_a = kSpansOfA - kLooksAhead, now_b = 0, listed = 0;  // slots of the i-th span
    bool has_sums = false;
    #pragma unroll 1
    for (int i = -kLooksAhead; i < count; ++i) {
        __pipeline_wait_prior(1);
        meet();  // all threads are done with the previous span
        const int last_of_a = i + kSpansOfA - 1, last_of_b = i + kSpansOfB - 1;
        if (last_of_a < count) copy_span<kSide>(spans.a[(now_a + kSpansOfA - 1) % kSpansOfA], of_a, groups, last_of_a, ~0u);
        if (last_of_b >= 0 && last_of_b < count) {
            const unsigned needed = values_of(spans, (now_a + kSpansOfB - 1) % kSpansOfA);
            if (needed != 0) copy_span<kSide>(spans.b[(now_b + kSpansOfB - 1) % kSpansOfB], of_b, groups, last_of_b, needed);
            for (int j = 0; lists && j < kGroupsOfSpan; ++j) {
                if ((needed >> j * kGroup & 0xff) == 0) continue;
                if (threadIdx.x == 0) spans.groups[listed] = static_cast<uint16_t>(begin / kGroup + last_of_b * kGroupsOfSpan + j);
                ++listed;
            }
        }
        __pipeline_commit();
        if (i + kLooksAhead < count) note_values(spans, (now_a + kLooksAhead) % kSpansOfA, of_a.by_rows);
        if (i >= 0 && values_of(spans, now_a) != 0) {
            multiply_values(sum, spans.a[now_a], spans.b[now_b], of_a.by_rows, of_b.by_rows, spans.values[now_a], at);
            has_sums = true;
        }
        if (has_sums && ((i + 1) % (kAnewDepth / kSpan) == 0 || i + 1 == count)) {
            has_sums = false;
            add_up<8>(result, sum);
        }
        now_a = (now_a + 1) % kSpansOfA, now_b = (now_b + 1) % kSpansOfB;
    }
    if (threadIdx.x == 0 && lists) spans.known = listed;
    meet();
}

// Returns true if a has few nonzero values in a tile's rows, estimated from a sample. All threads call it.
template <class Meet>
__device__ __forceinline__ bool has_few(Spans& spans, const Reader& of_a, int few_of, int begin, int end, const Meet& meet) {
    const int thread = threadIdx.x, row = thread % kSide;
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
    meet();  // all threads have read of_warps
    return static_cast<int>(all) * few_of < kSamples * kPlainThreads;
}

// Computes the sums of the first 16 * ROWS rows of a tile. All kAnewThreads call it between barriers, with `meet` as the barrier.
// `zeros_count` is set if zeros may meet values that are not finite. `spans.known` belongs to these rows of a.
template <int ROWS, bool BY_DEPTH = false, class Meet>
__device__ __forceinline__ void sum_anew(float (&all)[8][8], Spans& spans, const Plain& a, const Plain& b, int64_t first_row,
                                         int64_t first_column, bool zeros_count, const Meet& meet) {
    const int begin = static_cast<int>(max(a.begin_in(first_row), b.begin_in(first_column)));
    const int end = static_cast<int>(min(a.end_in(first_row), b.end_in(first_column)));
    const Reader of_a(a, first_row, end), of_b(b, first_column, end);
    if constexpr (ROWS == 8) {  // for half a tile, multiplying all values is as fast
        if (!zeros_count && spans.known != kMany) {
            const bool may_list = a.part == kWhole && b.part == kWhole && end <= kMostGroups * kGroup;
            if (spans.known != kNotKnown || has_few(spans, of_a, of_b.by_rows ? kFewOf : kFewOfDeep, begin, end, meet)) {
                return sum_values(all, spans, of_a, of_b, begin, end, may_list, meet);
            }
            if (threadIdx.x == 0 && may_list) spans.known = kMany;
            meet();
        }
    }
    if (!of_a.by_fours || !of_b.by_fours) {
        return sum_slices(all, reinterpret_cast<Slices&>(spans), a, b, first_row, first_column, begin, end, meet);
    }
    if (BY_DEPTH) return sum_all<ROWS, false, false>(all, spans, of_a, of_b, begin, end, meet);
    if (of_a.by_rows) {
        if (of_b.by_rows) return sum_all<ROWS, true, true>(all, spans, of_a, of_b, begin, end, meet);
        return sum_all<ROWS, true, false>(all, spans, of_a, of_b, begin, end, meet);
    }
    if (of_b.by_rows) return sum_all<ROWS, false, true>(all, spans, of_a, of_b, begin, end, meet);
    sum_all<ROWS, false, false>(all, spans, of_a, of_b, begin, end, meet);
}

// Launches a kernel of kAnewThreads with Spans in dynamic shared memory.
template <typename... Parameters, typename... Given>
cudaError_t launched_anew(void (*kernel)(Parameters...), unsigned blocks, cudaStream_t stream, Given... given) {
    const auto bytes = static_cast<int>(sizeof(Spans));
    const cudaError_t error =
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    return error == cudaSuccess ? launched_with(kernel, blocks, kAnewThreads, bytes, stream, given...) : error;
}

}  // namespace kernelwright::matmul
