// GroupNorm and the minimum of a row in the epilogue of linear_fp32x3's product; the activation is never stored.
//
// A tile of 128 columns holds whole groups of WIDTH columns (WIDTH divides 128). The four lanes that share a row normalise its
// groups in registers and reduce the 128 values to one.
#pragma once

#include "../../linear_fp32x3/csrc/anew_sm90.cuh"
#include "least.cuh"

namespace kernelwright::linear_group_norm_min_bias {

// Returns the sum over the four lanes that share a row.
__device__ __forceinline__ float row_sum(float mine) {
    mine += __shfl_xor_sync(0xffffffffu, mine, 1);
    return mine + __shfl_xor_sync(0xffffffffu, mine, 2);
}

// Epilogue of a tile that was recomputed in float, for one half of its rows at a time.
struct LeastAnew {
    Norm norm;
    float* smallest;  // [tiles of 128 columns, m]
    int width;

    struct Shared {
        float values[linear::kTile / 2][linear::kTile + 4];
    };

    // Tests the thread's row through its minimum, which is NaN if any of its values is not finite.
    __device__ __forceinline__ bool is_finite(const linear::Product& p, const linear::Tile& tile) const {
        const int row = tile.of_x * linear::kTile + static_cast<int>(threadIdx.x) % linear::kTile;
        return row >= p.m || isfinite(__ldcg(smallest + static_cast<int64_t>(tile.of_weight) * p.m + row));
    }

    __device__ __forceinline__ void operator()(const linear::Product& p, const float (&sums)[8][8], const linear::Tile& tile,
                                               Shared& shared) const {
        const matmul::Corner at;
        const int columns = min(linear::kTile, p.n - tile.of_weight * linear::kTile), first_column = tile.of_weight * linear::kTile;
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            __syncthreads();
            #pragma unroll
            for (int j = 0; j < 8; ++j) {
                const int column = at.column + matmul::Corner::step(j);
                const float bias = p.bias != nullptr && column < columns ? p.bias[first_column + column] : 0.0f;
                #pragma unroll
                for (int i = 0; i < 4; ++i) shared.values[at.row + i][column] = sums[4 * half + i][j] + bias;
            }
            __syncthreads();
            for (int i = threadIdx.x / 32; i < linear::kTile / 2; i += matmul::kAnewThreads / 32) {
                float lowest = INFINITY;
                for (int first = 0; first < columns; first += width) {
                    lowest = least(least_of_group<1>(shared.values[i] + first, width, kWarp, norm, first_column + first), lowest);
                }
                lowest = warp_least(lowest);
                const int row = tile.of_x * linear::kTile + half * (linear::kTile / 2) + i;
                if (threadIdx.x % 32 == 0 && row < p.m) smallest[static_cast<int64_t>(tile.of_weight) * p.m + row] = lowest;
            }
        }
    }
};

template <int WIDTH>
struct LeastOfGroups {
    Norm norm;
    float* smallest;  // [tiles of 128 columns, m]

    __device__ __forceinline__ void operator()(const linear::Product& p, float (&values)[64], const linear::Place& at,
                                               int tile) const {
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = at.row + 8 * half;
            float lowest = INFINITY;
            #pragma unroll
            for (int first = 0; first < 16; first += WIDTH / 8) {
                lowest = least(of_group(p, &values[4 * first + 2 * half], at.column + 8 * first), lowest);
            }
            lowest = least(__shfl_xor_sync(0xffffffffu, lowest, 1), lowest);
            lowest = least(__shfl_xor_sync(0xffffffffu, lowest, 2), lowest);
            if (threadIdx.x % 4 == 0 && row < p.m) smallest[static_cast<int64_t>(tile) * p.m + row] = lowest;
        }
    }

    // Returns the minimum of this lane's values of a group. Its pairs of values lie 4 apart in `values` and 8 apart in
    // columns.
    __device__ __forceinline__ float of_group(const linear::Product& p, float* values, int column) const {
        constexpr int kPairs = WIDTH / 8;
        float total = 0.0f;
        #pragma unroll
        for (int j = 0; j < kPairs; ++j) total += values[4 * j] + values[4 * j + 1];
        const float mean = row_sum(total) * (1.0f / WIDTH);
        float squares = 0.0f;
        #pragma unroll
        for (int j = 0; j < kPairs; ++j) {
            values[4 * j] -= mean;
            values[4 * j + 1] -= mean;
            squares = fmaf(values[4 * j], values[4 * j], fmaf(values[4 * j + 1], values[4 * j + 1], squares));
        }
        const float rstd = rsqrtf(row_sum(squares) * (1.0f / WIDTH) + norm.eps);
        float lowest = INFINITY;
        if (column >= p.n) return lowest;
        #pragma unroll
        for (int j = 0; j < kPairs; ++j) {
            const float a = normal(norm, values[4 * j], rstd, column + 8 * j);
            const float b = normal(norm, values[4 * j + 1], rstd, column + 8 * j + 1);
            lowest = least(least(a, b), lowest);
        }
        return lowest;
    }

    LeastAnew anew() const { return {norm, smallest, WIDTH}; }
};

inline bool fits_a_tile(int64_t width) { return width >= 8 && linear::kTile % width == 0; }

// Runs the product of `args` with the epilogue for groups of `width`; smallest is [tiles of 128 columns, m].
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
