// Arguments and sizes shared by all paths of a convolution. Every field takes 8 bytes.
//
// 1 and 2 dimensions are treated as 3, with leading sizes of 1. A convolution is a matrix product whose rows are pixels of the
// result and whose K, the depth, is (channel, tap). A row of the weight has that order in memory.
#pragma once

#include "../../csrc/launched.cuh"
#include "../../matmul_fp32x3/csrc/sizes.cuh"

namespace kernelwright::conv {

using linear::ceil_div;
using linear::kMostBlocks;
using linear::on_256_bytes;

// y = conv(x, weight) + bias in float32, x and weight contiguous. No size is 0. Padding may be negative. The padding at the
// input's end follows from the size of the result.
struct Forward {
    const float* x;                                           // [images, groups * channels, in_...]
    const float* weight;                                      // [groups * features, channels, size_...]
    const float* bias;                                        // [groups * features], or null
    float* y;                                                 // [images, groups * features, out_...], strided by step_...
    void* workspace;                                          // forward_workspace(args) bytes, 256-aligned
    int64_t images, groups, channels, features;               // channels and features per group
    int64_t in_d, in_h, in_w;
    int64_t out_d, out_h, out_w;
    int64_t step_plane, step_d, step_h, step_w;               // strides of y between features and between pixels
    int64_t size_d, size_h, size_w;
    int64_t stride_d, stride_h, stride_w;
    int64_t padding_d, padding_h, padding_w;
    int64_t dilation_d, dilation_h, dilation_w;
    int64_t precision;                                        // value of linear::Precision
    cudaStream_t stream;
    int64_t device;
};

struct Extent {
    int d, h, w;

    __host__ __device__ int count() const { return d * h * w; }
};

// One position of K: the offset of its value from the first of a pixel's window, and the bits that the pixel's mask needs for
// it to lie inside the input.
struct Tap {
    int offset;
    unsigned needed;
};

constexpr unsigned kNever = 1u << 31;  // bit that is in no pixel's mask, for positions past K
constexpr int kMostTaps = 31;          // maximum sum of a kernel's sizes (depth, height, width), one mask bit each

struct Shape {
    int images, groups, channels, features;
    Extent in, out, step, size, stride, padding, dilation;
    int64_t plane;  // stride of y between features

    __host__ __device__ int depth() const { return channels * size.count(); }
    __host__ __device__ int pixels() const { return images * out.count(); }
    __host__ __device__ int64_t group_values() const { return static_cast<int64_t>(channels) * in.count(); }
    __host__ __device__ int64_t image_values() const { return groups * group_values(); }
};

inline Shape shape_of(const Forward& args) {
    const auto extent = [](int64_t d, int64_t h, int64_t w) {
        return Extent{static_cast<int>(d), static_cast<int>(h), static_cast<int>(w)};
    };
    return {static_cast<int>(args.images), static_cast<int>(args.groups), static_cast<int>(args.channels),
            static_cast<int>(args.features), extent(args.in_d, args.in_h, args.in_w),
            extent(args.out_d, args.out_h, args.out_w), extent(args.step_d, args.step_h, args.step_w),
            extent(args.size_d, args.size_h, args.size_w), extent(args.stride_d, args.stride_h, args.stride_w),
            extent(args.padding_d, args.padding_h, args.padding_w),
            extent(args.dilation_d, args.dilation_h, args.dilation_w), args.step_plane};
}

// A pixel of the result: its image, the start of its window, and the taps that lie inside the input.
struct Pixel {
    int64_t first;  // offset in x of the window's first value, for group 0; may lie outside
    int image, at;  // `at` is the pixel's index within the image of the result
    unsigned mask;
};

__device__ __forceinline__ unsigned mask_of(int begin, int step, int size, int end) {
    unsigned mask = 0;
    for (int i = 0; i < size; ++i) {
        const int at = begin + i * step;
        mask |= (at >= 0 && at < end ? 1u : 0u) << i;
    }
    return mask;
}

// Returns pixel `number`, counted over all images. Past the last pixel the mask is empty.
__device__ __forceinline__ Pixel pixel_at(const Shape& s, int number) {
    if (number >= s.pixels()) return {0, 0, 0, 0};
    const int image = number / s.out.count();
    const int at = number - image * s.out.count();
    const int row = at / s.out.w;
    const int d = row / s.out.h * s.stride.d - s.padding.d;
    const int h = row % s.out.h * s.stride.h - s.padding.h;
    const int w = (at - row * s.out.w) * s.stride.w - s.padding.w;
    const unsigned mask = mask_of(d, s.dilation.d, s.size.d, s.in.d) |
                          mask_of(h, s.dilation.h, s.size.h, s.in.h) << s.size.d |
                          mask_of(w, s.dilation.w, s.size.w, s.in.w) << (s.size.d + s.size.h);
    const int64_t first = image * s.image_values() + (static_cast<int64_t>(d) * s.in.h + h) * s.in.w + w;
    return {first, image, at, mask};
}

// Returns the offset in y of the first feature of group 0, for pixel `number`.
__device__ __forceinline__ int64_t place_in_y(const Shape& s, int number) {
    const int image = number / s.out.count();
    const int at = number - image * s.out.count();
    const int row = at / s.out.w;
    const int64_t in_plane = static_cast<int64_t>(row / s.out.h) * s.step.d + static_cast<int64_t>(row % s.out.h) * s.step.h +
                             static_cast<int64_t>(at - row * s.out.w) * s.step.w;
    return static_cast<int64_t>(image) * s.groups * s.features * s.plane + in_plane;
}

__device__ __forceinline__ Tap tap_at(const Shape& s, int depth) {
    if (depth >= s.depth()) return {0, kNever};
    const int channel = depth / s.size.count();
    const int tap = depth - channel * s.size.count();
    const int row = tap / s.size.w;
    const int d = row / s.size.h, h = row % s.size.h, w = tap - row * s.size.w;
    const int offset = channel * s.in.count() + (d * s.dilation.d * s.in.h + h * s.dilation.h) * s.in.w + w * s.dilation.w;
    return {offset, 1u << d | 1u << (s.size.d + h) | 1u << (s.size.d + s.size.h + w)};
}

constexpr int kListThreads = 256;

__global__ void __launch_bounds__(kListThreads) conv_list_taps(const __grid_constant__ Shape s, Tap* taps, int count) {
    await_earlier();
    const int depth = blockIdx.x * kListThreads + threadIdx.x;
    if (depth < count) taps[depth] = tap_at(s, depth);
}

inline cudaError_t list_taps(const Shape& s, Tap* taps, int count, cudaStream_t stream) {
    return launched(conv_list_taps, static_cast<unsigned>(ceil_div(count, kListThreads)), kListThreads, stream, s, taps, count);
}

}  // namespace kernelwright::conv
