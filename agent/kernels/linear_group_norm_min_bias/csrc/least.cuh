// The smallest value of each row after GroupNorm, and a bias spread over it. NaN wins, as in torch.
#pragma once

#include <algorithm>
#include <cmath>

#include "../../linear_fp32x3/csrc/sizes.cuh"

namespace kernelwright::linear_group_norm_min_bias {

constexpr int kNormThreads = 256;
constexpr int kSpreadThreads = 256;
constexpr int64_t kSpreadRows = 64;
constexpr int64_t kMostInY = 65535;

struct Norm {
    const float* gamma;  // [n], or null
    const float* beta;   // [n], or null
    float eps;
};

__device__ __forceinline__ float least(float a, float b) { return a < b || isnan(a) ? a : b; }

__device__ __forceinline__ float normal(const Norm& norm, float deviation, float rstd, int64_t column) {
    const float value = deviation * rstd * (norm.gamma == nullptr ? 1.0f : norm.gamma[column]);
    return norm.beta == nullptr ? value : value + norm.beta[column];
}

__device__ __forceinline__ float warp_sum(float mine) {
    for (int offset = 16; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, offset);
    return mine;
}

// The smallest of this lane's values of a group of `width`, by a warp; `column` is the first one's.
__device__ __forceinline__ float least_of_group(const float* group, int64_t width, const Norm& norm, int64_t column) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float total = 0.0f;
    for (int64_t i = lane; i < width; i += 32) total += group[i];
    const float mean = warp_sum(total) / static_cast<float>(width);
    float squares = 0.0f;
    for (int64_t i = lane; i < width; i += 32) {
        const float deviation = group[i] - mean;
        squares = fmaf(deviation, deviation, squares);
    }
    const float rstd = rsqrtf(warp_sum(squares) / static_cast<float>(width) + norm.eps);
    float lowest = INFINITY;
    for (int64_t i = lane; i < width; i += 32) lowest = least(normal(norm, group[i] - mean, rstd, column + i), lowest);
    return lowest;
}

__device__ __forceinline__ float warp_least(float mine) {
    for (int offset = 16; offset > 0; offset /= 2) mine = least(__shfl_xor_sync(0xffffffffu, mine, offset), mine);
    return mine;
}

// smallest[row] of y [m, n], a block for each row and a warp for each group of `width` columns in turn.
__global__ void __launch_bounds__(kNormThreads) least_of_rows(const float* y, int64_t n, int64_t width, Norm norm,
                                                              float* smallest) {
    __shared__ float of_warp[kNormThreads / 32];
    const float* row = y + blockIdx.x * n;
    float lowest = INFINITY;
    for (int64_t first = threadIdx.x / 32 * width; first < n; first += kNormThreads / 32 * width) {
        lowest = least(least_of_group(row + first, width, norm, first), lowest);
    }
    lowest = warp_least(lowest);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = lowest;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int warp = 1; warp < kNormThreads / 32; ++warp) lowest = least(of_warp[warp], lowest);
    smallest[blockIdx.x] = lowest;
}

// out[j * m + i] = the smallest of column i of smallest[tiles, m] + bias[j]. Block (x, y): kSpreadThreads columns i, `rows`
// values of j.
__global__ void __launch_bounds__(kSpreadThreads) spread_least(const float* smallest, int64_t tiles, const float* bias,
                                                               float* out, int64_t m, int64_t count, int64_t rows) {
    const int64_t i = int64_t{blockIdx.x} * kSpreadThreads + threadIdx.x;
    if (i >= m) return;
    float lowest = smallest[i];
    for (int64_t tile = 1; tile < tiles; ++tile) lowest = least(smallest[tile * m + i], lowest);
    const int64_t first = blockIdx.y * rows;
    const int64_t end = first + rows < count ? first + rows : count;
    for (int64_t j = first; j < end; ++j) out[j * m + i] = lowest + bias[j];
}

inline cudaError_t spread(const float* smallest, int64_t tiles, const float* bias, float* out, int64_t m, int64_t count,
                          cudaStream_t stream) {
    const int64_t rows = std::max(kSpreadRows, linear::ceil_div(count, kMostInY));
    const dim3 grid(static_cast<unsigned>(linear::ceil_div(m, kSpreadThreads)),
                    static_cast<unsigned>(linear::ceil_div(count, rows)));
    spread_least<<<grid, kSpreadThreads, 0, stream>>>(smallest, tiles, bias, out, m, count, rows);
    return cudaGetLastError();
}

}  // namespace kernelwright::linear_group_norm_min_bias
