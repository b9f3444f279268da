// Two operands of a tile in shared memory, 32 depths of each at a time: layout, asynchronous copies, and bookkeeping of a's nonzero
// values.
#pragma once

#include <cuda_pipeline.h>

#include "plain_tile.cuh"

namespace kernelwright::matmul {

constexpr int kSpan = 32;          // depths per span
constexpr int kSpansOfA = 7;       // slots in shared memory: the present span and those ahead
constexpr int kSpansOfB = 3;
constexpr int kLooksAhead = 3;     // spans whose nonzero values are known in advance
constexpr int kGroup = 8;          // depths per group, which is skipped if all rows of a are zero there
constexpr int kGroupsOfSpan = kSpan / kGroup;
constexpr int kMostGroups = 4096;  // maximum remembered groups
static_assert(kSpan == 32, "a lane, and a bit, for each depth");

// 32 depths of a tile's rows in their memory order: contiguous along rows, or along the depth with float4s permuted so that lanes reading
// different rows hit different banks.
struct Span {
    static constexpr int kPitch = kSide + 4;
    __align__(16) float v[kSpan * kPitch];

    __device__ __forceinline__ static int place(bool by_rows, int row, int depth) {
        return by_rows ? depth * kPitch + row : row * kSpan + (depth ^ (row & 28));
    }
    __device__ __forceinline__ float at(bool by_rows, int row, int depth) const { return v[place(by_rows, row, depth)]; }
    // Loads four adjacent rows by four depths.
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
    __align__(16) unsigned values[kSpansOfA][kSide];                 // one bit per depth of a row: the value is nonzero
    __align__(16) unsigned of_warps[kSpansOfA][kPlainThreads / 32];  // OR over the rows of each warp
    uint16_t groups[kMostGroups];                                     // groups to multiply
    int known;                                                        // number of these groups for a's rows, or Known
};

enum Known : int { kNotKnown = -1, kMany = -2 };  // before the first tile of these rows; a has many nonzero values

// Groups of depths to multiply: those of a list, or all.
struct Groups {
    const uint16_t* list;  // or null
    int count, begin, end;

    __device__ __forceinline__ int at(int i) const { return i >= count ? end : list == nullptr ? begin + i * kGroup : list[i] * kGroup; }
    __device__ __forceinline__ int spans() const { return static_cast<int>(ceil_div(count, kGroupsOfSpan)); }
};

// Copies COUNT adjacent floats asynchronously, or zeros.
template <int COUNT>
__device__ __forceinline__ void copy(float* to, const float* from, bool is_there) {
    __pipeline_memcpy_async(to, from, COUNT * sizeof(float), is_there ? 0 : COUNT * sizeof(float));
}

// An operand from a tile's first row on, copied by float4 where its layout allows, else one by one.
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

// Position of a thread's i-th of kCount groups of four values, for ROWS rows of a span.
template <int ROWS>
struct Fours {
    static constexpr int kCount = ROWS / 32, kOfDepth = ROWS / 4;  // kOfDepth: threads that copy one depth
    bool by_rows;

    __device__ __forceinline__ int row(int i) const {
        return by_rows ? static_cast<int>(threadIdx.x) % kOfDepth * 4 : i * 32 + static_cast<int>(threadIdx.x) / 8;
    }
    __device__ __forceinline__ int depth(int i) const {
        return by_rows ? i * (kPlainThreads / kOfDepth) + static_cast<int>(threadIdx.x) / kOfDepth : static_cast<int>(threadIdx.x) % 8 * 4;
    }
};

// Copies ROWS rows of a span. Depths without a bit in `needed` are filled with zeros.
template <int ROWS>
__device__ __forceinline__ void copy_span(Span& to, const Reader& of, const Groups& groups, int span, unsigned needed) {
    const Fours<ROWS> fours = {of.by_rows};
    const auto from = [&](int i) {
        const int depth = fours.depth(i);
        const bool wanted = (needed >> depth & (of.by_rows ? 1 : 15)) != 0;
        return wanted ? groups.at(span * kGroupsOfSpan + depth / kGroup) + depth % kGroup : of.end;
    };
    if (of.by_fours) {
        #pragma unroll
        for (int i = 0; i < fours.kCount; ++i) of.four(to.v + Span::place(of.by_rows, fours.row(i), fours.depth(i)), fours.row(i), from(i));
        return;
    }
    #pragma unroll 1
    for (int i = 0; i < 4 * fours.kCount; ++i) {
        const int row = fours.row(i / 4), along_rows = of.by_rows ? i % 4 : 0, along_depth = i % 4 - along_rows;
        of.one(to.v + Span::place(of.by_rows, row, fours.depth(i / 4)) + i % 4, row + along_rows, from(i / 4) + along_depth);
    }
}

// Copies consecutive spans with little address arithmetic for each.
template <int ROWS>
struct Stream {
    const Reader& of;
    const float* from;
    int64_t step, next;  // strides between a thread's groups of four and between spans
    int depth, depth_step, place, place_step;
    unsigned there;      // one bit per group of four: its row exists

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

// Notes where the rows of a span are nonzero.
__device__ __forceinline__ void note_values(Spans& spans, int slot, bool by_rows) {
    constexpr int kOfWarp = kSide / (kPlainThreads / 32);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Span& a = spans.a[slot];
    unsigned own = 0, all = 0;
    if (by_rows) {
        const int begin = lane / kOfWarp * kOfWarp;  // the lanes of a row share its depths
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

// Depths at which any row is nonzero.
__device__ __forceinline__ unsigned values_of(const Spans& spans, int slot) {
    unsigned all = 0;
    #pragma unroll
    for (int i = 0; i < kPlainThreads / 32; ++i) all |= spans.of_warps[slot][i];
    return all;
}

}  // namespace kernelwright::matmul
