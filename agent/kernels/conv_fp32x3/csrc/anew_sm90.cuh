// The check after a convolution: tiles in which the split into two fp16 loses too much accuracy are recomputed in float arithmetic.
//
// The loss matters where large values of a window meet zeros, so that small values count. The bound is that of
// matmul_fp32x3/csrc/anew.cuh, with the windows of pixels as a and the weight as b. The loss also matters where sums are short (see that
// file). In both cases sums are small compared to the product of the largest values. Each warp of the convolution compares them as it
// stores its sums, and lists the tile.
//
// This kernel inspects the windows of the listed tiles. If every half stage is dense, the weight included, the loss of small values does
// not matter. For short sums it follows a sample. It recomputes the tiles that fail.
#pragma once

#include "product_portable.cuh"
#include "product_sm90.cuh"

namespace kernelwright::conv {

static_assert(kTile == kSide && kPlainThreads == kGatherers && kPlainThreads == matmul::kAnewThreads);

// Returns true if more than a small share of the weight's half stages are not dense, as in matmul_fp32x3.
__device__ __forceinline__ bool is_weight_sparse(const Conv& p) {
    const Shape& s = p.shape;
    return __ldcg(p.sparse) * int64_t{64 * matmul::kHalf} > static_cast<int64_t>(s.groups) * s.features * s.depth();
}

// Returns true if half `half` of any stage of a pixel's window is not dense. Values of the padding do not count.
__device__ __forceinline__ bool is_window_sparse(const Conv& p, const Tile& tile, int row, int half) {
    const Pixel pixel = pixel_at(p.shape, tile.first_pixel + row);
    const float* window = p.x + pixel.first + tile.group * p.shape.group_values();
    bool sparse = false;
    for (int i = 0; i < p.cut.stages; ++i) {
        const Tap* taps = p.taps + i * kDepth + half * kOfThread;
        float v[kOfThread];
        gather(v, window, pixel.mask, taps);
        const float dense = matmul::scale_of(8 - matmul::exponent_for(matmul::largest_of<kOfThread>(v)));  // 2^-6 of the largest v
        int there = 0, large = 0;
        #pragma unroll
        for (int j = 0; j < kOfThread; ++j) {
            const unsigned needed = taps[j].needed;
            there += (pixel.mask & needed) == needed ? 1 : 0;
            large += fabsf(v[j]) >= dense ? 1 : 0;
        }
        sparse |= 8 * large < 5 * there;
    }
    return sparse;
}

// Returns true if a tile's sums are short: a float sum would be more accurate (matmul_fp32x3/csrc/anew.cuh). All threads call it.
__device__ __forceinline__ bool are_short(const Conv& p, const Tile& tile) {
    __shared__ matmul::Sample sample;
    __shared__ matmul::Followed followed[matmul::kAnewThreads / 32];
    const int pixels = min(kTile, p.shape.pixels() - tile.first_pixel), features = tile.past_feature - tile.first_feature;
    const int depth = p.shape.depth();
    const float* group = p.x + tile.group * p.shape.group_values();
    const float* weight = p.plain + (static_cast<int64_t>(tile.group) * p.shape.features + tile.first_feature) * depth;
    const auto of_window = [&](int i, int64_t at) {
        const Pixel pixel = pixel_at(p.shape, tile.first_pixel + matmul::followed_row(i, pixels));
        const Tap tap = p.taps[at];
        return (pixel.mask & tap.needed) == tap.needed ? __ldg(group + pixel.first + tap.offset) : 0.0f;
    };
    const auto of_weight = [&](int i, int64_t at) { return __ldg(weight + int64_t{matmul::followed_row(i, features)} * depth + at); };
    return matmul::are_short(sample, followed, 0, depth, matmul::short_below(p.all, false), false, {false}, of_window, {false}, of_weight,
                             [] { __syncthreads(); });
}

// Returns true if a listed tile has lost too much accuracy. All threads call it, two per pixel.
__device__ __forceinline__ bool has_lost(const Conv& p, const Tile& tile, int losses) {
    if ((losses & kShort) != 0 && are_short(p, tile)) return true;
    if ((losses & kSmall) == 0) return false;
    const int row = static_cast<int>(threadIdx.x) % kTile, half = static_cast<int>(threadIdx.x) / kTile;
    return __syncthreads_or(is_weight_sparse(p) || is_window_sparse(p, tile, row, half));
}

__device__ __forceinline__ void compute_tile(const Conv& p, const Tile& tile, Slices& slices) {
    const Plain plain = {p.shape, p.x, p.plain, p.bias, p.y, p.taps};
    const int depth = p.shape.depth();
    float all[8][8] = {};
    int now = 0;
    for (int begin = 0; begin < depth; begin += matmul::kAnewDepth) {
        float sum[8][8] = {};
        multiply_range(sum, slices, now, plain, tile, begin, min(begin + matmul::kAnewDepth, depth));
        #pragma unroll
        for (int i = 0; i < 64; ++i) all[i / 8][i % 8] += sum[i / 8][i % 8];
    }
    store_tile(all, plain, tile);
}

// Checks and recomputes the listed tiles after the convolution.
__global__ void __launch_bounds__(kPlainThreads, 1) conv_anew(const __grid_constant__ Conv p) {
    await_earlier();
    const int listed = __ldcg(p.listed);
    __shared__ Slices slices;
    for (int i = blockIdx.x; i < listed; i += gridDim.x) {
        const int number = __ldcg(p.list + i);
        const Place place = place_at(p, number, p.width);
        const int first_feature = place.features * p.width;
        const Tile tile = {place.pixels * kTile, first_feature, min(first_feature + p.width, p.shape.features), place.group};
        if (has_lost(p, tile, __ldcg(p.losses + number))) compute_tile(p, tile, slices);
    }
}

inline cudaError_t compute_anew(const Conv& p, int64_t sms, cudaStream_t stream) {
    const auto blocks = static_cast<unsigned>(std::min(sms, int64_t{p.cut.tiles}));
    return launched(conv_anew, blocks, kPlainThreads, stream, p);
}

}  // namespace kernelwright::conv
