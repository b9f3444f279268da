// The scale of each pixel's window: the largest value over the channels at each place of the input, then over the
// places of a window.
#pragma once

#include "../../linear_fp32x3/csrc/split_sm90.cuh"
#include "sizes.cuh"

namespace kernelwright::conv {

constexpr int kLookThreads = 256;

// largest[image, group, place]
__global__ void __launch_bounds__(kLookThreads) conv_look(const float* x, int64_t planes, int channels, int places,
                                                          float* largest) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * kLookThreads + threadIdx.x;
    if (at >= planes * places) return;
    const int64_t plane = at / places;
    const float* from = x + plane * channels * places + at % places;
    float mine = 0.0f;
    #pragma unroll 8
    for (int c = 0; c < channels; ++c) mine = fmaxf(mine, linear::finite_size(from[static_cast<int64_t>(c) * places]));
    largest[at] = mine;
}

// exponents[group, pixel]
__global__ void __launch_bounds__(kLookThreads) conv_exponents(const __grid_constant__ Shape s, const float* largest,
                                                               int* exponents) {
    const int number = blockIdx.x * kLookThreads + threadIdx.x;
    if (number >= s.pixels()) return;
    const int group = blockIdx.y;
    const Pixel pixel = pixel_at(s, number);
    // `first` counts channels: here a group has one.
    const int64_t inside = pixel.first - pixel.image * s.image_values();
    const float* window = largest + (static_cast<int64_t>(pixel.image) * s.groups + group) * s.in.count() + inside;
    float mine = 0.0f;
    for (int d = 0; d < s.size.d; ++d) {
        for (int h = 0; h < s.size.h; ++h) {
            const int row = (d * s.dilation.d * s.in.h + h * s.dilation.h) * s.in.w;
            if (!(pixel.mask >> d & pixel.mask >> (s.size.d + h) & 1u)) continue;
            for (int w = 0; w < s.size.w; ++w) {
                if (pixel.mask >> (s.size.d + s.size.h + w) & 1u) mine = fmaxf(mine, window[row + w * s.dilation.w]);
            }
        }
    }
    exponents[static_cast<int64_t>(group) * s.pixels() + number] = mine > 0.0f ? 13 - ilogbf(mine) : 0;
}

inline cudaError_t find_exponents(const Shape& s, const float* x, float* largest, int* exponents, cudaStream_t stream) {
    const int64_t planes = static_cast<int64_t>(s.images) * s.groups;
    const int64_t blocks = ceil_div(planes * s.in.count(), kLookThreads);
    if (blocks > kMostBlocks) return cudaErrorInvalidValue;
    conv_look<<<static_cast<unsigned>(blocks), kLookThreads, 0, stream>>>(x, planes, s.channels, s.in.count(), largest);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) return error;
    const dim3 grid(static_cast<unsigned>(ceil_div(s.pixels(), kLookThreads)), static_cast<unsigned>(s.groups));
    conv_exponents<<<grid, kLookThreads, 0, stream>>>(s, largest, exponents);
    return cudaGetLastError();
}

}  // namespace kernelwright::conv
