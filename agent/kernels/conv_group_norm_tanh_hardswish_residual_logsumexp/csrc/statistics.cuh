// Merges the mean and variance of a group from its parts, and derives each channel's affine map.
#pragma once

#include "../../csrc/launched.cuh"
#include "interface.h"

namespace kernelwright::conv_logsumexp {

constexpr int kMergeThreads = 128;
constexpr double kTwoLog2e = 2.8853900817779268;

// Statistics of one channel in one part of an image; `squares` is the sum of squared deviations from `mean`.
struct Part {
    float count, mean, squares;
};

// Affine map of one channel of one image: 2 log2(e) z = scale * c + shift, the argument of exp(2 z) = exp2(...).
struct alignas(8) Norm {
    float scale, shift;
};

// Moments of one group of one image, for the backward.
struct alignas(8) Moments {
    float mean, rstd;
};

__device__ inline double block_sum(double mine, double* of_warp) {
    #pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, offset);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    double sum = 0.0;
    for (int warp = 0; warp < kMergeThreads / 32; ++warp) sum += of_warp[warp];
    return sum;
}

// Merges parts [n, parts, channels] in block (group, image). norms are [n, channels], moments [n, groups] or null. Two
// passes in double, first the mean and then the squares around it, avoid cancellation. The order of additions is fixed.
__global__ void __launch_bounds__(kMergeThreads)
    merge_parts(const Part* parts, int count, const float* gamma, const float* beta, Norm* norms, Moments* moments,
                int channels, int groups, double eps) {
    await_earlier();
    __shared__ double of_warp[kMergeThreads / 32];
    const int width = channels / groups;
    const int first = blockIdx.x * width;
    const Part* of_image = parts + static_cast<int64_t>(blockIdx.y) * count * channels;
    double values = 0.0;
    double total = 0.0;
    for (int i = threadIdx.x; i < count * width; i += kMergeThreads) {
        const Part part = of_image[static_cast<int64_t>(i / width) * channels + first + i % width];
        values += part.count;
        total += static_cast<double>(part.count) * part.mean;
    }
    values = block_sum(values, of_warp);
    const double mean = block_sum(total, of_warp) / values;
    double squares = 0.0;
    for (int i = threadIdx.x; i < count * width; i += kMergeThreads) {
        const Part part = of_image[static_cast<int64_t>(i / width) * channels + first + i % width];
        const double off = part.mean - mean;
        squares += part.squares + part.count * off * off;
    }
    const double rstd = 1.0 / sqrt(block_sum(squares, of_warp) / values + eps);
    if (moments != nullptr && threadIdx.x == 0) {
        moments[blockIdx.y * int64_t{gridDim.x} + blockIdx.x] = {static_cast<float>(mean), static_cast<float>(rstd)};
    }
    for (int c = first + threadIdx.x; c < first + width; c += kMergeThreads) {
        // The shift uses the rounded scale, so that z equals beta where c equals the mean.
        const float scale = static_cast<float>(kTwoLog2e * rstd * (gamma == nullptr ? 1.0 : gamma[c]));
        const double shift = kTwoLog2e * (beta == nullptr ? 0.0 : beta[c]) - mean * scale;
        norms[static_cast<int64_t>(blockIdx.y) * channels + c] = {scale, static_cast<float>(shift)};
    }
}

}  // namespace kernelwright::conv_logsumexp
