// Minimum of each row after GroupNorm, plus a broadcast bias. NaN propagates, as in torch.
#pragma once

#include <algorithm>
#include <cmath>

#include "../../csrc/element.cuh"
#include "../../csrc/launched.cuh"
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

// Returns the parameters of V columns from `first` on, or `absent` if `values` is null.
template <int V>
__device__ __forceinline__ Pack<float, V> parameters(const float* values, int64_t first, float absent) {
    if (values != nullptr) return *reinterpret_cast<const Pack<float, V>*>(values + first);
    Pack<float, V> pack;
    for (float& value : pack.v) value = absent;
    return pack;
}

__device__ __forceinline__ float lanes_sum(float mine, int lanes) {
    for (int offset = lanes / 2; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, offset);
    return mine;
}

// Returns the minimum of this lane's values of a group of `width`. `lanes` lanes, a power of two, share the group in packs;
// `column` is the column of the group's first value. All lanes of the warp call it.
template <int V>
__device__ __forceinline__ float least_of_group(
    const float* group, int width, int lanes, const Norm& norm, int64_t column) {
    const int first = (static_cast<int>(threadIdx.x) & (lanes - 1)) * V, step = lanes * V;
    const auto each = [&](auto take) {
        #pragma unroll(V == 1 ? 1 : 4)
        for (int i = first; i < width; i += step) take(i, *reinterpret_cast<const Pack<float, V>*>(group + i));
    };
    float total = 0.0f;
    each([&](int, const Pack<float, V>& pack) {
        for (float value : pack.v) total += value;
    });
    const float mean = lanes_sum(total, lanes) / static_cast<float>(width);
    float squares = 0.0f;
    each([&](int, const Pack<float, V>& pack) {
        for (float value : pack.v) squares = fmaf(value - mean, value - mean, squares);
    });
    const float rstd = rsqrtf(lanes_sum(squares, lanes) / static_cast<float>(width) + norm.eps);
    float lowest = INFINITY;
    each([&](int i, const Pack<float, V>& pack) {
        const auto gamma = parameters<V>(norm.gamma, column + i, 1.0f), beta = parameters<V>(norm.beta, column + i, 0.0f);
        #pragma unroll
        for (int k = 0; k < V; ++k) lowest = least((pack.v[k] - mean) * rstd * gamma.v[k] + beta.v[k], lowest);
    });
    return lowest;
}

__device__ __forceinline__ float warp_least(float mine) {
    for (int offset = 16; offset > 0; offset /= 2) mine = least(__shfl_xor_sync(0xffffffffu, mine, offset), mine);
    return mine;
}

// Writes smallest[row] for y [m, n], one block per row; `lanes` lanes handle a group of `width` columns.
template <int V>
__global__ void __launch_bounds__(kNormThreads) least_of_rows(
    const float* y, int64_t n, int width, int lanes, Norm norm, float* smallest) {
    await_earlier();
    __shared__ float of_warp[kNormThreads / 32];
    const float* row = y + blockIdx.x * n;
    float lowest = INFINITY;
    const int team = static_cast<int>(threadIdx.x) / lanes, first_team = static_cast<int>(threadIdx.x) / 32 * (32 / lanes);
    const int64_t step = int64_t{width} * (kNormThreads / lanes);
    int64_t own = int64_t{width} * team;
    for (int64_t first = int64_t{width} * first_team; first < n; first += step, own += step) {
        const int64_t group = own < n ? own : n - width;  // all lanes take part while any lane has a group
        lowest = least(least_of_group<V>(row + group, width, lanes, norm, group), lowest);
    }
    lowest = warp_least(lowest);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = lowest;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int warp = 1; warp < kNormThreads / 32; ++warp) lowest = least(of_warp[warp], lowest);
    smallest[blockIdx.x] = lowest;
}

inline cudaError_t least_by_rows(
    const float* y, int64_t m, int64_t n, int64_t width, const Norm& norm, float* smallest, cudaStream_t stream) {
    if (width > INT32_MAX) return cudaErrorInvalidValue;
    const auto by = [&](auto kernel, int vector) {
        int lanes = 1;
        while (lanes < kWarp && lanes * vector < width) lanes *= 2;
        return launched(kernel, unsigned(m), kNormThreads, stream, y, n, int(width), lanes, norm, smallest);
    };
    constexpr int kWide = kVector<float>;
    const bool packs = width % kWide == 0 && aligned(y) && aligned(norm.gamma) && aligned(norm.beta);
    return packs ? by(least_of_rows<kWide>, kWide) : by(least_of_rows<1>, 1);
}

// Writes out[j * m + i] = minimum of column i of smallest [tiles, m], plus bias[j]. A block handles kSpreadThreads columns i and
// `rows` values of j.
__global__ void __launch_bounds__(kSpreadThreads) spread_least(const float* smallest, int64_t tiles, const float* bias,
                                                               float* out, int64_t m, int64_t count, int64_t rows) {
    await_earlier();
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
    return launched(spread_least, grid, kSpreadThreads, stream, smallest, tiles, bias, out, m, count, rows);
}

}  // namespace kernelwright::linear_group_norm_min_bias
