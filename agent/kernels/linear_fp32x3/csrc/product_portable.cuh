// The portable path: y = x * weight^T + bias in float arithmetic, each element summed in the order of K.
//
// A block of 256 threads computes a tile of 128 x 128, 8 x 8 per thread, from slices of 8 of K stored transposed in shared
// memory. The next slice is loaded into registers while the present one is multiplied. Sizes are arbitrary.
#pragma once

#include "plain_tile.cuh"

namespace kernelwright::linear {

struct Plain {
    const float* x;
    const float* weight;
    const float* bias;
    float* y;
    int64_t m, n, k;
    bool by_fours;  // x and weight allow loads of float4
    bool stores_by_fours;
};

// Stores four adjacent values of a row of y, plus the bias.
__device__ __forceinline__ void store_four(const Plain& p, int64_t row, int64_t column, const float* sum) {
    float* to = p.y + row * p.n + column;
    float v[4];
    #pragma unroll
    for (int j = 0; j < 4; ++j) v[j] = p.bias != nullptr && column + j < p.n ? sum[j] + p.bias[column + j] : sum[j];
    if (p.stores_by_fours && column + 4 <= p.n) {
        *reinterpret_cast<float4*>(to) = {v[0], v[1], v[2], v[3]};
        return;
    }
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (column + j < p.n) to[j] = v[j];
    }
}

// Computes tile (i, j) of y in block (i, j); i varies fastest.
__global__ void __launch_bounds__(kPlainThreads, 2) linear_ieee(const Plain p) {
    __shared__ __align__(16) Slice of_x[2];
    __shared__ __align__(16) Slice of_weight[2];
    const int64_t m_tiles = ceil_div(p.m, kSide);
    const int64_t first_row = blockIdx.x % m_tiles * kSide;
    const int64_t first_column = blockIdx.x / m_tiles * kSide;
    const int load_row = int(threadIdx.x) / 2;
    const int load_depth = int(threadIdx.x) % 2 * 4;
    const int row = int(threadIdx.x) / 16 * 4;
    const int column = int(threadIdx.x) % 16 * 4;
    float sum[8][8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] = 0.0f;
    }
    int now = 0;
    put(of_x[0], load_row, load_depth, four_of(p.x, p.m, p.k, first_row + load_row, load_depth, p.by_fours));
    put(of_weight[0], load_row, load_depth,
        four_of(p.weight, p.n, p.k, first_column + load_row, load_depth, p.by_fours));
    __syncthreads();
    for (int64_t next = kSlice; next < p.k + kSlice; next += kSlice) {
        const int64_t depth = next + load_depth;
        const float4 x = four_of(p.x, p.m, p.k, first_row + load_row, depth, p.by_fours);
        const float4 weight = four_of(p.weight, p.n, p.k, first_column + load_row, depth, p.by_fours);
        multiply_slice(sum, of_x[now], of_weight[now], row, column);
        now ^= 1;
        put(of_x[now], load_row, load_depth, x);
        put(of_weight[now], load_row, load_depth, weight);
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int64_t at = first_row + row + i % 4 + i / 4 * (kSide / 2);
        if (at >= p.m) continue;
        store_four(p, at, first_column + column, sum[i]);
        store_four(p, at, first_column + column + kSide / 2, sum[i] + 4);
    }
}

inline cudaError_t multiply_portable(const Plain& plain, cudaStream_t stream) {
    Plain p = plain;
    const int64_t tiles = ceil_div(p.m, kSide) * ceil_div(p.n, kSide);
    if (tiles > kMostBlocks) return cudaErrorInvalidValue;
    p.by_fours = by_fours(p.x, p.k) && by_fours(p.weight, p.k);
    p.stores_by_fours = by_fours(p.y, p.n);
    linear_ieee<<<static_cast<unsigned>(tiles), kPlainThreads, 0, stream>>>(p);
    return cudaGetLastError();
}

}  // namespace kernelwright::linear
