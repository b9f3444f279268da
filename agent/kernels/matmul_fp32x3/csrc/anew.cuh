// What small values lose beside large ones, and a tile that is computed anew in float arithmetic where it shows.
//
// Values that share a scale are split on a grid of 2^-24, where the largest of them is 2^13 to 2^14: one below 2^-2, 2^-16 of the
// largest, keeps fewer than 22 bits. Beside what the larger ones give that is nothing, unless they meet zeros, or values that are
// small, of the other operand. It is 2^-25 at most, times the other's value, 2^14 at most: of n such products 2^-11 * sqrt(n) in
// the root mean square, as far as what is lost has either sign.
//
// Where a row's sums, in the root of their squares' mean, are not 2^26.5 times what all their products may have lost, the tile is
// computed anew. Elsewhere that is at most 2^-26.5 of the row in this tile, below half of the 2^-25.3 that rounding the results to
// floats costs.
#pragma once

#include "plain_tile.cuh"

namespace kernelwright::matmul {

constexpr int kAnewThreads = linear::kPlainThreads;
constexpr int kAnewDepth = 128;  // that is added up by itself

// What a row's sums have to be where so many of their products may have lost something, of operands whose largest values are 2^13
// to 2^14: 2^(26.5 - 11) times the root.
__host__ __device__ __forceinline__ float needed_for(float products) { return 46341.0f * sqrtf(products); }

// What the largest of so many sums says of the root of their squares' mean: 1 / sqrt(columns) of it, not above.
__device__ __forceinline__ float share_of(float columns) { return 0.97f * rsqrtf(columns); }

// The sums of a tile in float arithmetic, by kAnewThreads that meet by `meet`.
template <class Meet>
__device__ __forceinline__ void sum_anew(float (&all)[8][8], Slices& slices, const Plain& a, const Plain& b, int64_t first_row,
                                         int64_t first_column, const Meet& meet) {
    const int64_t end = min(a.end_in(first_row), b.end_in(first_column));
    for (int64_t begin = max(a.begin_in(first_row), b.begin_in(first_column)); begin < end; begin += kAnewDepth) {
        float sum[8][8] = {};
        multiply_range(sum, slices, a, b, first_row, first_column, begin, min(begin + kAnewDepth, end), meet);
        #pragma unroll
        for (int i = 0; i < 64; ++i) all[i / 8][i % 8] += sum[i / 8][i % 8];
    }
}

}  // namespace kernelwright::matmul
