// The gradient of c, the convolution's result, on every GPU. c is recomputed by the portable path and read twice, first for the
// sums of the norm's backward. The gradients of the convolution's operands are not computed here.
#pragma once

#include "portable.cuh"

namespace kernelwright::conv_logsumexp {

constexpr int kSlopeThreads = 256;
constexpr int kSlopeChannels = 8;  // channels per block
constexpr int kSlopePixels = 4;    // pixels per thread, one after the other

// Sums of dz and of dz * (c - mean), over all or some pixels of one channel of one image.
struct alignas(8) Slopes {
    float shift, scale;
};

// Coefficients of dc = dv + gamma / std * dz + by_c * c + rest for one channel of one image.
struct alignas(8) Back {
    float by_c, rest;
};

struct Gradients {
    float v, z;  // gradients of logsumexp's input (v) and of the norm's result (z)
};

// Returns the gradients at one element, whose share of its pixel's sum is exp(v - y). log_sum is log2(e) * y.
__device__ __forceinline__ Gradients gradients_of(float c, Norm by, float dy, float log_sum) {
    const float z = fmaf(c, by.scale, by.shift);
    const float power = exp2f(z > 60.0f ? 60.0f : z);  // a conditional instead of fminf keeps NaN
    const float r = __fdividef(1.0f, 1.0f + power);    // tanh is 1 - 2 r, see `activate`
    const float bent = fmaf(r, 2.0f / 3.0f * kLog2e, -5.0f / 3.0f * kLog2e);
    const float v = fmaf(c, kLog2e, fmaf(r, bent, 2.0f / 3.0f * kLog2e));
    const float dv = dy * exp2f(v - log_sum);
    // The slopes of hardswish, (2 tanh + 3) / 6, and of tanh, 4 r (1 - r), where 1 - r is power * r.
    return {dv, dv * (2.0f / 3.0f) * r * r * power * fmaf(r, -4.0f, 5.0f)};
}

// Calls f(pixel, values of c, dy, log2(e) * y) for the thread's pixels, in both passes. All channels are loaded before the first
// is used. Channels past the last one repeat the last channel's values.
template <typename F>
__device__ __forceinline__ void each_pixel(const Sizes& s, const float* c, const float* dy, const float* y, F f) {
    const int pixels = s.rows * s.columns, begin = blockIdx.x * (kSlopePixels * kSlopeThreads) + threadIdx.x;
    const int first = blockIdx.y * kSlopeChannels, last = min(kSlopeChannels, s.channels - first) - 1;
    const int64_t image = blockIdx.z, plane = static_cast<int64_t>(s.rows) * s.pitch;
    const float* from = c + (image * s.channels + first) * plane;
    for (int step = 0; step < kSlopePixels; ++step) {
        const int at = begin + step * kSlopeThreads;
        if (at >= pixels) break;
        const int place = at / s.columns * s.pitch + at % s.columns;
        float values[kSlopeChannels];
        #pragma unroll
        for (int i = 0; i < kSlopeChannels; ++i) values[i] = from[min(i, last) * plane + place];
        f(at, values, dy[image * pixels + at], y[image * pixels + at] * kLog2e);
    }
}

// Sums slopes in block (part of the pixels, kSlopeChannels channels, image). parts are [n, gridDim.x, channels].
__global__ void __launch_bounds__(kSlopeThreads) sum_slopes(
    const float* c, const Norm* norms, const Moments* moments, const float* dy, const float* y, Slopes* parts,
    const __grid_constant__ Sizes s, int width) {
    await_earlier();
    __shared__ Slopes of_warp[kSlopeThreads / 32][kSlopeChannels];
    const int first = blockIdx.y * kSlopeChannels;
    const int64_t image = blockIdx.z;
    Norm norm[kSlopeChannels];
    float mean[kSlopeChannels];
    Slopes mine[kSlopeChannels] = {};
    #pragma unroll
    for (int i = 0; i < kSlopeChannels; ++i) {
        const int channel = min(first + i, s.channels - 1);
        norm[i] = norms[image * s.channels + channel];
        mean[i] = moments[image * (s.channels / width) + channel / width].mean;
    }
    each_pixel(s, c, dy, y, [&](int, const float (&values)[kSlopeChannels], float given, float log_sum) {
        #pragma unroll
        for (int i = 0; i < kSlopeChannels; ++i) {
            const float dz = gradients_of(values[i], norm[i], given, log_sum).z;
            mine[i] = {mine[i].shift + dz, fmaf(dz, values[i] - mean[i], mine[i].scale)};
        }
    });
    #pragma unroll
    for (int i = 0; i < kSlopeChannels; ++i) {
        const Slopes sum = {warp_sum(mine[i].shift), warp_sum(mine[i].scale)};
        if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32][i] = sum;
    }
    __syncthreads();
    const int own = threadIdx.x;
    if (own >= kSlopeChannels || first + own >= s.channels) return;
    Slopes sum = {};
    for (int warp = 0; warp < kSlopeThreads / 32; ++warp) {
        sum = {sum.shift + of_warp[warp][own].shift, sum.scale + of_warp[warp][own].scale};
    }
    parts[(image * gridDim.x + blockIdx.x) * s.channels + first + own] = sum;
}

// Merges parts [n, count, channels] in block (group, image). sums [2, n, channels] are those of dz and of dz times the norm's
// result before gamma and beta; backs are [n, channels]. Computed in double and in a fixed order.
__global__ void __launch_bounds__(kMergeThreads) merge_slopes(
    const Slopes* parts, int count, const Moments* moments, const float* gamma, float* sums, Back* backs,
    const __grid_constant__ Sizes s, int width) {
    await_earlier();
    __shared__ double of_warp[kMergeThreads / 32];
    const int first = blockIdx.x * width;
    const int64_t image = blockIdx.y, row = image * s.channels;
    const Moments at = moments[image * gridDim.x + blockIdx.x];
    double shift = 0.0, scale = 0.0;  // sums over the group
    for (int channel = first; channel < first + width; ++channel) {
        double one = 0.0, two = 0.0;
        for (int i = threadIdx.x; i < count; i += kMergeThreads) {
            const Slopes part = parts[(image * count + i) * s.channels + channel];
            one += part.shift, two += part.scale;
        }
        one = block_sum(one, of_warp), two = block_sum(two, of_warp) * at.rstd;
        const double by = gamma == nullptr ? 1.0 : gamma[channel];
        shift += by * one, scale += by * two;
        if (threadIdx.x > 0) continue;
        sums[row + channel] = static_cast<float>(one);
        sums[gridDim.y * static_cast<int64_t>(s.channels) + row + channel] = static_cast<float>(two);
    }
    const double rstd = at.rstd, values = static_cast<double>(width) * s.rows * s.columns;
    const double by_c = -rstd * rstd * scale / values;
    for (int channel = first + threadIdx.x; channel < first + width; channel += kMergeThreads) {
        backs[row + channel] = {static_cast<float>(by_c), static_cast<float>(-rstd * shift / values - by_c * at.mean)};
    }
}

// Computes dc [n, channels, rows, columns], with the blocks of `sum_slopes`.
__global__ void __launch_bounds__(kSlopeThreads) put_gradients(
    const float* c, const Norm* norms, const Back* backs, const float* dy, const float* y, float* __restrict__ dc,
    const __grid_constant__ Sizes s) {
    await_earlier();
    const int first = blockIdx.y * kSlopeChannels;
    const int64_t image = blockIdx.z, pixels = static_cast<int64_t>(s.rows) * s.columns;
    Norm norm[kSlopeChannels];
    Back back[kSlopeChannels];
    #pragma unroll
    for (int i = 0; i < kSlopeChannels; ++i) {
        const int64_t channel = image * s.channels + min(first + i, s.channels - 1);
        norm[i] = norms[channel], back[i] = backs[channel];
    }
    float* to = dc + (image * s.channels + first) * pixels;
    each_pixel(s, c, dy, y, [&](int pixel, const float (&values)[kSlopeChannels], float given, float log_sum) {
        #pragma unroll
        for (int i = 0; i < kSlopeChannels; ++i) {
            const Gradients d = gradients_of(values[i], norm[i], given, log_sum);
            const float of_norm = fmaf(back[i].by_c, values[i], back[i].rest);
            const float made = d.v + fmaf(norm[i].scale * float(1.0 / kTwoLog2e), d.z, of_norm);
            if (first + i < s.channels) to[i * pixels + pixel] = made;
        }
    });
}

}  // namespace kernelwright::conv_logsumexp
