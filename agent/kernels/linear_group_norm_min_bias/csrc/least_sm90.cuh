// GroupNorm and the smallest value of a row in the epilogue of linear_fp32x3's product: the activation is never stored.
//
// A tile of 128 columns holds whole groups of WIDTH columns (WIDTH divides 128), so that a row's groups are normalised in
// the registers of the four lanes that share it, and of 128 values one is left.
#pragma once

#include "../../linear_fp32x3/csrc/product_sm90.cuh"
#include "least.cuh"

namespace kernelwright::linear_group_norm_min_bias {

// Over the four lanes that share a row.
__device__ __forceinline__ float row_sum(float mine) {
    mine += __shfl_xor_sync(0xffffffffu, mine, 1);
    return mine + __shfl_xor_sync(0xffffffffu, mine, 2);
}

template <int WIDTH>
struct LeastOfGroups {
    Norm norm;
    float* smallest;  // [tiles of 128 columns, m]

    __device__ __forceinline__ void operator()(const linear::Product& p, float (&sum)[64], const linear::Place& at,
                                               const linear::Exponents& exponents, int tile) const {
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = at.row + 8 * half;
            const int row_exponent = exponents.rows[8 * half];  // 0 past m
            float lowest = INFINITY;
            #pragma unroll
            for (int first = 0; first < 16; first += WIDTH / 8) {
                const int* of_columns = exponents.columns + 8 * first;
                lowest = least(of_group(p, &sum[4 * first + 2 * half], row_exponent, of_columns, at.column + 8 * first), lowest);
            }
            lowest = least(__shfl_xor_sync(0xffffffffu, lowest, 1), lowest);
            lowest = least(__shfl_xor_sync(0xffffffffu, lowest, 2), lowest);
            if (threadIdx.x % 4 == 0 && row < p.m) smallest[static_cast<int64_t>(tile) * p.m + row] = lowest;
        }
    }

    // The smallest of this lane's values of a group, whose pairs lie 4 apart in `sums` and 8 apart in columns.
    __device__ __forceinline__ float of_group(const linear::Product& p, float* sums, int row_exponent,
                                              const int* of_columns, int column) const {
        constexpr int kPairs = WIDTH / 8;
        float total = 0.0f;
        #pragma unroll
        for (int j = 0; j < kPairs; ++j) {
            const float2 values = linear::values_of(p, sums + 4 * j, row_exponent, of_columns + 8 * j, column + 8 * j);
            sums[4 * j] = values.x;
            sums[4 * j + 1] = values.y;
            total += values.x + values.y;
        }
        const float mean = row_sum(total) * (1.0f / WIDTH);
        float squares = 0.0f;
        #pragma unroll
        for (int j = 0; j < kPairs; ++j) {
            sums[4 * j] -= mean;
            sums[4 * j + 1] -= mean;
            squares = fmaf(sums[4 * j], sums[4 * j], fmaf(sums[4 * j + 1], sums[4 * j + 1], squares));
        }
        const float rstd = rsqrtf(row_sum(squares) * (1.0f / WIDTH) + norm.eps);
        float lowest = INFINITY;
        if (column >= p.n) return lowest;
        #pragma unroll
        for (int j = 0; j < kPairs; ++j) {
            const float a = normal(norm, sums[4 * j], rstd, column + 8 * j);
            const float b = normal(norm, sums[4 * j + 1], rstd, column + 8 * j + 1);
            lowest = least(least(a, b), lowest);
        }
        return lowest;
    }
};

inline bool fits_a_tile(int64_t width) { return width >= 8 && linear::kTile % width == 0; }

// The product of `args` with the epilogue for groups of `width`; smallest is [tiles of 128 columns, m].
inline cudaError_t least_of_groups(const linear::Forward& args, const Norm& norm, int64_t width, float* smallest) {
    switch (width) {
        case 8: return linear::with_operands(args, LeastOfGroups<8>{norm, smallest});
        case 16: return linear::with_operands(args, LeastOfGroups<16>{norm, smallest});
        case 32: return linear::with_operands(args, LeastOfGroups<32>{norm, smallest});
        case 64: return linear::with_operands(args, LeastOfGroups<64>{norm, smallest});
        case 128: return linear::with_operands(args, LeastOfGroups<128>{norm, smallest});
        default: return cudaErrorInvalidValue;
    }
}

}  // namespace kernelwright::linear_group_norm_min_bias
