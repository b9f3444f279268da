// A convolution in float arithmetic, each sum in the order of (channel, tap): every GPU's path.
//
// As linear_fp32x3/csrc/product_portable.cuh: a block of 256 threads makes 128 pixels of 128 features from slices of 8 of
// the depth, whose values it gathers.
#pragma once

#include "../../linear_fp32x3/csrc/plain_tile.cuh"
#include "sizes.cuh"

namespace kernelwright::conv {

using linear::kPlainThreads;
using linear::kSide;
using linear::kSlice;
using linear::Slice;

struct Plain {
    Shape shape;
    const float* x;
    const float* weight;
    const float* bias;
    float* y;
    const Tap* taps;  // a multiple of kSlice
};

// Block (pixels, features, group) of the tiles, pixels fastest.
__global__ void __launch_bounds__(kPlainThreads, 2) conv_ieee(const __grid_constant__ Plain p) {
    __shared__ __align__(16) Slice of_x[2];
    __shared__ __align__(16) Slice of_weight[2];
    const Shape& s = p.shape;
    const int m_tiles = (s.pixels() + kSide - 1) / kSide;
    const int n_tiles = (s.features + kSide - 1) / kSide;
    const int group = blockIdx.x / m_tiles / n_tiles;
    const int first_pixel = blockIdx.x % m_tiles * kSide;
    const int first_feature = blockIdx.x / m_tiles % n_tiles * kSide;
    const int side = threadIdx.x % kSide, half = threadIdx.x / kSide * 4;
    const Pixel pixel = pixel_at(s, first_pixel + side);
    const float* window = p.x + pixel.first + group * s.group_values();
    const bool is_feature = first_feature + side < s.features;
    const float* weight = p.weight + (static_cast<int64_t>(group) * s.features + first_feature + side) * s.depth();
    float sum[8][8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] = 0.0f;
    }
    const int row = int(threadIdx.x) / 16 * 4;
    const int column = int(threadIdx.x) % 16 * 4;
    int now = 0;
    for (int begin = 0; begin < s.depth(); begin += kSlice) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int depth = begin + half + i;
            const Tap tap = p.taps[depth];
            const bool is_inside = (pixel.mask & tap.needed) == tap.needed;
            of_x[now].v[half + i][side] = is_inside ? window[tap.offset] : 0.0f;
            of_weight[now].v[half + i][side] = is_feature && depth < s.depth() ? weight[depth] : 0.0f;
        }
        __syncthreads();
        linear::multiply_slice(sum, of_x[now], of_weight[now], row, column);
        now ^= 1;
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int number = first_pixel + row + i % 4 + i / 4 * (kSide / 2);
        if (number >= s.pixels()) continue;
        float* to = p.y + place_in_y(s, number);
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int feature = first_feature + column + j % 4 + j / 4 * (kSide / 2);
            if (feature >= s.features) continue;
            const int64_t channel = static_cast<int64_t>(group) * s.features + feature;
            to[channel * s.plane] = p.bias == nullptr ? sum[i][j] : sum[i][j] + p.bias[channel];
        }
    }
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
