// Linear, GroupNorm over each row's features, the smallest value of each row, and a bias spread over it:
// out[j, i] = min over c of GroupNorm(x * weight^T + bias)[i, c] + spread[j], out as [n, m].
//
// The product is linear_fp32x3's. A tile of 128 columns holds whole groups of WIDTH columns (WIDTH divides 128), so a
// row's groups are normalised in the registers of four lanes, and of 128 values one is left: [m, n / 128] smallest values
// are stored, never the activation. NaN wins, as in torch.
#pragma once

#include "linear_fp32x3.cuh"

namespace kernelwright::linear {

constexpr int kSpreadThreads = 256;

__device__ __forceinline__ float least(float a, float b) { return a < b || isnan(a) ? a : b; }

// Over the four lanes that share a row.
__device__ __forceinline__ float row_sum(float mine) {
    mine += __shfl_xor_sync(0xffffffffu, mine, 1);
    return mine + __shfl_xor_sync(0xffffffffu, mine, 2);
}

template <int WIDTH>
struct LeastOfGroups {
    const float* gamma;  // [n]
    const float* beta;   // [n]
    float eps;
    float* smallest;     // [n / 128, m]

    __device__ __forceinline__ void operator()(const Product& p, float (&sum)[64], const Place& at, int tile) const {
        constexpr int kSteps = WIDTH / 8;  // of 8 columns
        float lowest[2] = {INFINITY, INFINITY};
        #pragma unroll
        for (int first = 0; first < 16; first += kSteps) {
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float of_row = p.x_unscale[at.row + 8 * half];
                float total = 0.0f;
                #pragma unroll
                for (int j = first; j < first + kSteps; ++j) {
                    const Columns c = columns_at(p, at.column + 8 * j);
                    float* value = &sum[4 * j + 2 * half];
                    value[0] = fmaf(value[0], of_row * c.unscale.x, c.bias.x);
                    value[1] = fmaf(value[1], of_row * c.unscale.y, c.bias.y);
                    total += value[0] + value[1];
                }
                const float mean = row_sum(total) * (1.0f / WIDTH);
                float squares = 0.0f;
                #pragma unroll
                for (int j = first; j < first + kSteps; ++j) {
                    const float a = sum[4 * j + 2 * half] - mean;
                    const float b = sum[4 * j + 2 * half + 1] - mean;
                    squares = fmaf(a, a, fmaf(b, b, squares));
                }
                const float rstd = rsqrtf(row_sum(squares) * (1.0f / WIDTH) + eps);
                #pragma unroll
                for (int j = first; j < first + kSteps; ++j) {
                    const float2 scale = *reinterpret_cast<const float2*>(gamma + at.column + 8 * j);
                    const float2 level = *reinterpret_cast<const float2*>(beta + at.column + 8 * j);
                    const float a = fmaf((sum[4 * j + 2 * half] - mean) * rstd, scale.x, level.x);
                    const float b = fmaf((sum[4 * j + 2 * half + 1] - mean) * rstd, scale.y, level.y);
                    lowest[half] = least(least(a, b), lowest[half]);
                }
            }
        }
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            lowest[half] = least(__shfl_xor_sync(0xffffffffu, lowest[half], 1), lowest[half]);
            lowest[half] = least(__shfl_xor_sync(0xffffffffu, lowest[half], 2), lowest[half]);
            if (threadIdx.x % 4 == 0) smallest[static_cast<int64_t>(tile) * p.m + at.row + 8 * half] = lowest[half];
        }
    }
};

// out[j * m + i] = the smallest of column i of smallest[tiles, m] + spread[j]. Block (x, y): kSpreadThreads columns i,
// `rows` values of j.
__global__ void __launch_bounds__(kSpreadThreads) spread_least(const float* smallest, int tiles, const float* spread,
                                                               float* out, int m, int n, int rows) {
    const int i = blockIdx.x * kSpreadThreads + threadIdx.x;
    if (i >= m) return;
    float lowest = smallest[i];
    for (int tile = 1; tile < tiles; ++tile) lowest = least(smallest[static_cast<int64_t>(tile) * m + i], lowest);
    const int end = min(n, static_cast<int>(blockIdx.y + 1) * rows);
    for (int j = blockIdx.y * rows; j < end; ++j) out[static_cast<int64_t>(j) * m + i] = lowest + spread[j];
}

}  // namespace kernelwright::linear
