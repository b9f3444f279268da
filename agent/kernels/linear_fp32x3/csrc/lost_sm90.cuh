// What two fp16 lose of small values, and sums that are computed anew in float arithmetic where it shows.
//
// Values that share a scale are split on a grid of 2^-24, where the largest of them is 2^13 to 2^14: one below 2^-2, 2^-16 of the
// largest, keeps fewer than 22 bits. Beside what the larger ones give that is nothing, unless they meet zeros of the other
// operand. What a sum can have lost is known: of a value at most 2^-25 where it goes to the nearest, 2^-24 where it is drawn,
// times the other operand's largest, 2^14, for each value that is small. So whoever splits counts them, and the sums of a row
// whose size in the tile (the root of their squares' sum) is not 2^26.5 times as large as that of what they may have lost, are
// computed anew, with those of the other rows of the warp. Where they are, at most 2^-26.5 of a row is lost, below half of the
// 2^-25.3 that rounding the results to floats costs in the root mean square, whatever the signs of what is lost.
//
// Of ordinary operands a value in 20,000 or fewer is small, and a row's sums are thousands of times as large as they had to be.
#pragma once

#include "sizes.cuh"

namespace kernelwright::linear {

// The size that a row of 128 sums has to have, over the most that one of them may have lost: sqrt(128) * 2^26.5 for the largest
// sum, as is taken here, or 128 * 2^26.5 for what all of them add up to; either is below the root of their squares' sum.
constexpr float kHeld = 1.22e10f;    // 2^33.5
constexpr float kLargestOf = 11.0f;  // sqrt(128), not above

// Of a row or column of an operand: how its values are scaled, by 2^exponent, and how many eights of them have small ones.
constexpr int kExponentBits = 10;
constexpr int kExponentBias = 256;
constexpr int kNoValue = 120;  // the exponent where all are 0

__device__ __forceinline__ int word_of(int exponent, int eights) {
    return eights << kExponentBits | (exponent + kExponentBias);
}
__device__ __forceinline__ int exponent_in(int word) { return (word & ((1 << kExponentBits) - 1)) - kExponentBias; }
__device__ __forceinline__ int eights_in(int word) { return word >> kExponentBits; }

// Whether some of the values are not 0 and below 2^(-2 - exponent).
template <int COUNT>
__device__ __forceinline__ bool has_small(const float* v, int exponent) {
    unsigned least = 0xffffffffu;  // twice the bits, without the sign, less 1: a 0 is the largest
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const unsigned bits = __float_as_uint(v[i]);
        least = min(least, bits + bits - 1u);
    }
    const int enough = min(max(127 - 2 - exponent, 0), 254);
    return least < (static_cast<unsigned>(enough) << 24) - (enough > 0 ? 1u : 0u);
}

// Whether a warp has a row whose sums are not large enough beside what they may have lost; the same in all its lanes. A lane has
// sums of two rows in N / 2 columns, as the tensor cores leave them. They may have lost `own` by their row's small values and
// `other` by a small one in each eight of their column, both times the column's scale.
template <int N>
__device__ __forceinline__ bool is_lost(const float (&sum)[N], const int2 (&words)[N / 4], const float (&own)[2],
                                        const float (&other)[2]) {
    constexpr int kNoEights = 1 << kExponentBits;
    bool may_be = own[0] > 0.0f || own[1] > 0.0f;
    #pragma unroll
    for (int j = 0; j < N / 4; ++j) may_be = may_be || words[j].x >= kNoEights || words[j].y >= kNoEights;
    if (!__any_sync(0xffffffffu, may_be)) return false;
    float widest = 0.0f, small = 0.0f;
    float largest[2] = {}, all[2] = {};
    #pragma unroll
    for (int j = 0; j < N / 4; ++j) {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int word = i == 0 ? words[j].x : words[j].y;
            const float scale = __int_as_float((127 - min(max(exponent_in(word), -kNoValue), kNoValue)) << 23);
            widest = fmaxf(widest, scale);
            small = fmaxf(small, scale * static_cast<float>(eights_in(word)));
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float size = fabsf(sum[4 * j + 2 * half + i]) * scale;
                largest[half] = fmaxf(largest[half], size);
                all[half] += size;
            }
        }
    }
    bool lost = false;
    for (int lane = 1; lane < 4; lane *= 2) {  // four lanes share a row
        widest = fmaxf(widest, __shfl_xor_sync(0xffffffffu, widest, lane));
        small = fmaxf(small, __shfl_xor_sync(0xffffffffu, small, lane));
    }
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        for (int lane = 1; lane < 4; lane *= 2) {
            largest[half] = fmaxf(largest[half], __shfl_xor_sync(0xffffffffu, largest[half], lane));
            all[half] += __shfl_xor_sync(0xffffffffu, all[half], lane);
        }
        const float most = own[half] * widest + other[half] * small;
        lost = lost || fmaxf(largest[half] * kLargestOf, all[half]) < most * kHeld;
    }
    return __any_sync(0xffffffffu, lost);
}

// The values of a row or column, by depth; outside of [begin, end) they are 0.
struct Line {
    const float* values;
    int64_t step;
    int64_t begin, end;

    __device__ __forceinline__ float at(int64_t depth) const {
        return depth >= begin && depth < end ? __ldg(values + depth * step) : 0.0f;
    }
};

constexpr int kAnewColumns = 8;  // at a time
constexpr int kAnewDepth = 64;   // that is added up by itself

// The sums of two lines with eight others over [begin, end).
template <class OfRow, class OfColumn>
__device__ __noinline__ void multiply_lines(const OfRow (&rows)[2], const OfColumn (&columns)[kAnewColumns], int64_t begin,
                                            int64_t end, float (&sum)[2][kAnewColumns]) {
    #pragma unroll
    for (int i = 0; i < 2 * kAnewColumns; ++i) sum[i / kAnewColumns][i % kAnewColumns] = 0.0f;
    for (int64_t first = begin; first < end; first += kAnewDepth) {
        float partial[2][kAnewColumns] = {};
        #pragma unroll 2
        for (int64_t depth = first; depth < min(first + kAnewDepth, end); ++depth) {
            const float of_rows[2] = {rows[0].at(depth), rows[1].at(depth)};
            #pragma unroll
            for (int i = 0; i < kAnewColumns; ++i) {
                const float of_column = columns[i].at(depth);
                partial[0][i] = fmaf(of_rows[0], of_column, partial[0][i]);
                partial[1][i] = fmaf(of_rows[1], of_column, partial[1][i]);
            }
        }
        #pragma unroll
        for (int i = 0; i < 2 * kAnewColumns; ++i) sum[i / kAnewColumns][i % kAnewColumns] += partial[i / kAnewColumns][i % kAnewColumns];
    }
}

// A warp's sums over [begin, end) in float arithmetic, in their places; `column_at(i)` is the line of the i-th column from this lane's
// first on.
template <int N, class OfRow, class ColumnAt>
__device__ __forceinline__ void multiply_anew(float (&sum)[N], const OfRow (&rows)[2], const ColumnAt& column_at, int64_t begin,
                                              int64_t end) {
    #pragma unroll
    for (int j = 0; j < N / 4; j += kAnewColumns / 2) {
        decltype(column_at(0)) columns[kAnewColumns];
        #pragma unroll
        for (int i = 0; i < kAnewColumns; ++i) columns[i] = column_at(8 * (j + i / 2) + i % 2);
        float made[2][kAnewColumns];
        multiply_lines(rows, columns, begin, end, made);
        #pragma unroll
        for (int i = 0; i < kAnewColumns; ++i) {
            sum[4 * (j + i / 2) + i % 2] = made[0][i];
            sum[4 * (j + i / 2) + 2 + i % 2] = made[1][i];
        }
    }
}

}  // namespace kernelwright::linear
