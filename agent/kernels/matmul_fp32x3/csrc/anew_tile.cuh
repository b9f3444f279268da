// The sums of a tile that is computed anew, in float arithmetic, of operands that often are mostly zeros.
//
// Both come in spans of 32 depths by asynchronous copies, a's some spans ahead: so it is known where its rows have values
// before b's are asked for, which are left out where none has one. A warp whose rows have few of a span multiplies these alone.
// Which eighths of spans have any is remembered for the next tile of the same rows.
#pragma once

#include <cuda_pipeline.h>

#include "../../csrc/launched.cuh"
#include "anew.cuh"

namespace kernelwright::matmul {

constexpr int kSpan = 32;         // of depth: a lane for each
constexpr int kSpansOfA = 7;      // in shared memory: the one that is multiplied, and what is ahead of it
constexpr int kSpansOfB = 3;
constexpr int kLooksAhead = 3;     // spans whose values are known
constexpr int kGroup = 8;          // depths of which some row of a has a value, or none
constexpr int kGroups = kSpan / kGroup;
constexpr int kMostGroups = 4096;  // that are remembered
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
    __device__ __forceinline__ void load(float (&to)[4][4], bool by_rows, int row, int depth) const {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float4 four = *reinterpret_cast<const float4*>(v + (by_rows ? place(true, row, depth + i) : place(false, row + i, depth)));
            const float of[4] = {four.x, four.y, four.z, four.w};
            #pragma unroll
            for (int j = 0; j < 4; ++j) (by_rows ? to[j][i] : to[i][j]) = of[j];
        }
    }
};

struct Spans {
    Span a[kSpansOfA], b[kSpansOfB];
    __align__(16) unsigned values[kSpansOfA][kSide];                 // a bit for each depth of a row whose value is not 0
    __align__(16) unsigned of_warps[kSpansOfA][kPlainThreads / 32];  // of all rows of a warp
    uint16_t groups[kMostGroups];                                     // that are multiplied
    int known;                                                        // how many of them, of a's rows; kNotKnown before the first tile
};

constexpr int kNotKnown = -1;

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

// Copies ROWS rows of a span, but depths of which `needed` has no bit: those are zeros.
template <int ROWS>
__device__ __forceinline__ void copy_span(Span& to, const Reader& of, const Groups& groups, int span, unsigned needed) {
    constexpr int kOfDepth = ROWS / 4;  // threads
    const int thread = threadIdx.x;
    #pragma unroll
    for (int i = 0; i < ROWS / 32; ++i) {
        const int row = of.by_rows ? thread % kOfDepth * 4 : i * 32 + thread / 8;
        const int depth = of.by_rows ? i * (kPlainThreads / kOfDepth) + thread / kOfDepth : thread % 8 * 4;
        const bool wanted = (needed >> depth & (of.by_rows ? 1 : 15)) != 0;
        const int from = wanted ? groups.at(span * kGroups + depth / kGroup) + depth % kGroup : of.end;
        float* four = to.v + Span::place(of.by_rows, row, depth);
        if (of.by_fours) {
            of.four(four, row, from);
        } else {
            #pragma unroll
            for (int j = 0; j < 4; ++j) of.one(four + j, of.by_rows ? row + j : row, of.by_rows ? from : from + j);
        }
    }
}

// Notes where the rows of a span have values; everywhere where zeros count too.
template <int ROWS>
__device__ __forceinline__ void note_values(Spans& spans, int slot, bool by_rows, bool zeros_count) {
    constexpr int kOfWarp = ROWS / (kPlainThreads / 32);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Span& a = spans.a[slot];
    unsigned own = 0, all = 0;
    if (by_rows) {
        const int begin = lane / kOfWarp * kOfWarp;  // lanes share the depths of a row out
        #pragma unroll
        for (int i = 0; i < kOfWarp; ++i) {
            const bool has_value = zeros_count || a.at(true, warp * kOfWarp + lane % kOfWarp, begin + i) != 0.0f;
            own |= static_cast<unsigned>(has_value) << (begin + i);
        }
        for (int lanes = 16; lanes >= kOfWarp; lanes /= 2) own |= __shfl_xor_sync(0xffffffffu, own, lanes);
        all = own;
        for (int lanes = kOfWarp / 2; lanes > 0; lanes /= 2) all |= __shfl_xor_sync(0xffffffffu, all, lanes);
    } else {
        #pragma unroll
        for (int i = 0; i < kOfWarp; ++i) {
            const unsigned values = __ballot_sync(0xffffffffu, zeros_count || a.at(false, warp * kOfWarp + i, lane) != 0.0f);
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

// What is multiplied: spans of both operands.
struct Both {
    const Span &a, &b;
    bool a_by_rows, b_by_rows;
    Corner at;
};

template <int ROWS>
__device__ __forceinline__ void multiply_all(float (&sum)[8][8], const Both& of) {
    #pragma unroll 1
    for (int depth = 0; depth < kSpan; depth += 4) {
        float b[2][4][4];
        #pragma unroll
        for (int j = 0; j < 2; ++j) of.b.load(b[j], of.b_by_rows, of.at.column + Corner::step(4 * j), depth);
        #pragma unroll
        for (int i = 0; i < ROWS; i += 4) {
            float a[4][4];
            of.a.load(a, of.a_by_rows, of.at.row + Corner::step(i), depth);
            #pragma unroll
            for (int d = 0; d < 4; ++d) {
                #pragma unroll
                for (int u = 0; u < 32; ++u) sum[i + u / 8][u % 8] = fmaf(a[u / 8][d], b[u % 8 / 4][u % 4][d], sum[i + u / 8][u % 8]);
            }
        }
    }
}

// Of a thread's columns, at one depth.
__device__ __forceinline__ void eight_of(float (&eight)[8], const Both& of, int depth) {
    if (of.b_by_rows) return linear::eight_of(eight, of.b.v + Span::place(true, 0, depth), of.at.column);
    #pragma unroll
    for (int j = 0; j < 8; ++j) eight[j] = of.b.at(false, of.at.column + Corner::step(j), depth);
}

// Row by row the values that there are, whose bits are set.
template <int ROWS>
__device__ __forceinline__ void multiply_values(float (&sum)[8][8], const Both& of, const unsigned (&values)[ROWS]) {
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const int row = of.at.row + Corner::step(i);
        unsigned left = values[i];
        while (left != 0) {  // two at a time, so that one is not waited for alone
            const int first = __ffs(static_cast<int>(left)) - 1;
            left &= left - 1;
            const bool has_two = left != 0;
            const int second = has_two ? __ffs(static_cast<int>(left)) - 1 : first;
            left &= left - 1;
            const float of_first = of.a.at(of.a_by_rows, row, first), of_second = has_two ? of.a.at(of.a_by_rows, row, second) : 0.0f;
            float one[8], two[8];
            eight_of(one, of, first);
            eight_of(two, of, second);
            #pragma unroll
            for (int j = 0; j < 8; ++j) sum[i][j] = fmaf(of_second, two[j], fmaf(of_first, one[j], sum[i][j]));
        }
    }
}

// Half a warp has the same rows.
template <int ROWS>
__device__ __forceinline__ void multiply_span(float (&sum)[8][8], const Both& of, const unsigned* of_rows) {
    constexpr int kMost = ROWS * kSpan;
    unsigned values[ROWS];
    int count = 0;
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) count += __popc(values[i] = of_rows[of.at.row + Corner::step(i)]);
    count = max(count, __shfl_xor_sync(0xffffffffu, count, 16));
    if (count <= (of.b_by_rows ? kMost / 4 : kMost / 10)) {  // of more values all products are faster
        multiply_values<ROWS>(sum, of, values);
    } else {
        multiply_all<ROWS>(sum, of);
    }
}

// The sums of the first 16 * ROWS rows of a tile, by kAnewThreads that meet by `meet`, before and after. `zeros_count`: what meets them may
// not be finite. `spans.known` is of a's rows and of depth [begin, end); all are known to have met since it was set.
template <int ROWS, class Meet>
__device__ __forceinline__ void sum_anew(float (&all)[8][8], Spans& spans, const Plain& a, const Plain& b, int64_t first_row,
                                         int64_t first_column, bool zeros_count, const Meet& meet) {
    const int begin = static_cast<int>(max(a.begin_in(first_row), b.begin_in(first_column)));
    const int end = static_cast<int>(min(a.end_in(first_row), b.end_in(first_column)));
    const Reader of_a(a, first_row, end), of_b(b, first_column, end);
    const bool may_list = !zeros_count && a.part == kWhole && b.part == kWhole && end <= kMostGroups * kGroup;
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
        if (i + kLooksAhead < count) note_values<16 * ROWS>(spans, (now_a + kLooksAhead) % kSpansOfA, of_a.by_rows, zeros_count);
        if (i >= 0 && values_of(spans, now_a) != 0) {
            multiply_span<ROWS>(sum, {spans.a[now_a], spans.b[now_b], of_a.by_rows, of_b.by_rows, at}, spans.values[now_a]);
            has_sums = true;
        }
        if (has_sums && ((i + 1) % (kAnewDepth / kSpan) == 0 || i + 1 == count)) {
            has_sums = false;
            #pragma unroll
            for (int j = 0; j < ROWS * 8; ++j) all[j / 8][j % 8] += sum[j / 8][j % 8], sum[j / 8][j % 8] = 0.0f;
        }
        now_a = (now_a + 1) % kSpansOfA, now_b = (now_b + 1) % kSpansOfB;
    }
    if (threadIdx.x == 0 && lists) spans.known = listed;
    meet();
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
