// The portable path: a convolution in float arithmetic, each element summed in the order of (channel, tap).
//
// See linear_fp32x3/csrc/product_portable.cuh. A block of 256 threads computes 128 pixels of 128 features from slices of 8 of
// the depth, whose values it gathers.
#pragma once

#include "../../matmul_fp32x3/csrc/plain_tile.cuh"
#include "sizes.cuh"

namespace kernelwright::conv {

using linear::kPlainThreads;
using linear::kSide;
using linear::kSlice;
using matmul::Corner;
using matmul::Slices;

struct Plain {
    Shape shape;
    const float* x;
    const float* weight;
    const float* bias;
    float* y;
    const Tap* taps;  // count padded to a multiple of kSlice
};

// A tile of the result: 128 pixels by up to 128 features of a group.
struct Tile {
    int first_pixel, first_feature, past_feature, group;
};

// Adds a tile's products of depths [begin, end): whole slices, or up to the end. `now` is the buffer that no thread reads.
__device__ __forceinline__ void multiply_range(float (&sum)[8][8], Slices& slices, int& now, const Plain& p, const Tile& tile,
                                               int begin, int end) {
    const Shape& s = p.shape;
    const int side = threadIdx.x % kSide, half = threadIdx.x / kSide * 4;
    const Pixel pixel = pixel_at(s, tile.first_pixel + side);
    const float* window = p.x + pixel.first + tile.group * s.group_values();
    const bool is_feature = tile.first_feature + side < tile.past_feature;
    const float* weight = p.weight + (static_cast<int64_t>(tile.group) * s.features + tile.first_feature + side) * s.depth();
    const Corner at;
    for (; begin < end; begin += kSlice) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int depth = begin + half + i;
            const Tap tap = p.taps[depth];
            const bool is_inside = (pixel.mask & tap.needed) == tap.needed;
            slices.of_a[now].v[half + i][side] = is_inside ? window[tap.offset] : 0.0f;
            slices.of_b[now].v[half + i][side] = is_feature && depth < s.depth() ? weight[depth] : 0.0f;
        }
        __syncthreads();
        linear::multiply_slice(sum, slices.of_a[now], slices.of_b[now], at.row, at.column);
        now ^= 1;
    }
}

__device__ __forceinline__ void store_tile(const float (&sum)[8][8], const Plain& p, const Tile& tile) {
    const Shape& s = p.shape;
    const Corner at;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int number = tile.first_pixel + at.row + Corner::step(i);
        if (number >= s.pixels()) continue;
        float* to = p.y + place_in_y(s, number);
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int feature = tile.first_feature + at.column + Corner::step(j);
            if (feature >= tile.past_feature) continue;
            const int64_t channel = static_cast<int64_t>(tile.group) * s.features + feature;
            to[channel * s.plane] = p.bias == nullptr ? sum[i][j] : sum[i][j] + p.bias[channel];
        }
    }
}

// Computes the tile of a block. blockIdx.x numbers the tiles by group, features and pixels; pixels vary
// fastest.
__global__ void __launch_bounds__(kPlainThreads, 2) conv_ieee(const __grid_constant__ Plain p) {
    __shared__ Slices slices;
    const int m_tiles = (p.shape.pixels() + kSide - 1) / kSide;
    const int n_tiles = (p.shape.features + kSide - 1) / kSide;
    const int column = blockIdx.x / m_tiles, first_feature = column % n_tiles * kSide;
    const int past_feature = min(first_feature + kSide, p.shape.features);
    const Tile tile = {static_cast<int>(blockIdx.x) % m_tiles * kSide, first_feature, past_feature, column / n_tiles};
    float sum[8][8];
    #pragma unroll
    for (int i = 0; i < 64; ++i) sum[i / 8][i % 8] = 0.0f;
    int now = 0;
    multiply_range(sum, slices, now, p, tile, 0, p.shape.depth());
    store_tile(sum, p, tile);
}

inline int64_t portable_workspace(const Shape& s) { return ceil_div(s.depth(), kSlice) * kSlice * int64_t{sizeof(Tap)}; }

inline cudaError_t multiply_portable(const Forward& args) {
    const Shape s = shape_of(args);
    auto* taps = static_cast<Tap*>(args.workspace);
    const int64_t tiles = ceil_div(s.pixels(), kSide) * ceil_div(s.features, kSide) * s.groups;
    if (tiles > kMostBlocks) return cudaErrorInvalidValue;
    const cudaError_t error = list_taps(s, taps, static_cast<int>(ceil_div(s.depth(), kSlice) * kSlice), args.stream);
    if (error != cudaSuccess) return error;
    const Plain p = {s, args.x, args.weight, args.bias, args.y, taps};
    conv_ieee<<<static_cast<unsigned>(tiles), kPlainThreads, 0, args.stream>>>(p);
    return cudaGetLastError();
}

}  // namespace kernelwright::conv
