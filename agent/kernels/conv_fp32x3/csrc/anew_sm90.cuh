// What the split into two fp16 loses in a convolution, and tiles that are computed anew in float arithmetic where it shows.
//
// It shows where small values count because the large ones of a window meet zeros: the bound is that of
// matmul_fp32x3/csrc/anew.cuh, with the pixels' windows as a and the weight as b. And it shows where a sum has few products, which
// a float sum rounds as seldom: two fp16 hold 22 bits of a value, and the tensor cores cut off. In both cases sums are small beside
// the product of the largest values, which each warp of the convolution compares as it stores them: it lists the tile then.
//
// The kernel behind goes through the windows of the listed tiles. Where every half of a stage is dense, and the weight is too, sums are
// small because products of either sign cancel, which costs a float sum as much; and it counts the products that are not 0. The other
// tiles it computes anew.
#pragma once

#include "product_portable.cuh"
#include "product_sm90.cuh"

namespace kernelwright::conv {

constexpr int kFewest = 40, kFewestOfAll = 8;  // products of a sum, for less than twice a float sum's error; with lo * lo
static_assert(kTile == kSide && kPlainThreads == kGatherers);

// Of so few halves that are not dense nothing is said, as in matmul_fp32x3.
__device__ __forceinline__ bool is_weight_sparse(const Conv& p) {
    const Shape& s = p.shape;
    return __ldcg(p.sparse) * int64_t{64 * matmul::kHalf} > static_cast<int64_t>(s.groups) * s.features * s.depth();
}

// Of a half of all stages of a pixel's window.
struct Window {
    int values;   // that are not 0, nor below 2^-20 of the largest of their half
    bool sparse;  // where one is not dense; values of the padding do not count
};

__device__ __forceinline__ Window window_of(const Conv& p, const Tile& tile, int row, int half) {
    const Pixel pixel = pixel_at(p.shape, tile.first_pixel + row);
    const float* window = p.x + pixel.first + tile.group * p.shape.group_values();
    Window found = {0, false};
    for (int i = 0; i < p.cut.stages; ++i) {
        const Tap* taps = p.taps + i * kDepth + half * kOfThread;
        float v[kOfThread];
        gather(v, window, pixel.mask, taps);
        const int exponent = matmul::exponent_for(matmul::largest_of<kOfThread>(v));
        const float dense = matmul::scale_of(8 - exponent), least = matmul::scale_of(-6 - exponent);  // 2^-6 and 2^-20 of the largest
        int there = 0, large = 0;
        #pragma unroll
        for (int j = 0; j < kOfThread; ++j) {
            const unsigned needed = taps[j].needed;
            there += (pixel.mask & needed) == needed ? 1 : 0;
            large += fabsf(v[j]) >= dense ? 1 : 0;
            found.values += fabsf(v[j]) >= least ? 1 : 0;
        }
        found.sparse |= 8 * large < 5 * there;
    }
    return found;
}

// How many values of a feature's weight are not 0, in a half of its depth.
__device__ __forceinline__ int count_weight(const Conv& p, const Tile& tile, int feature, int half) {
    if (tile.first_feature + feature >= tile.past_feature) return 0;
    const int depth = p.shape.depth(), middle = depth / 2;
    const float* weight = p.plain + (static_cast<int64_t>(tile.group) * p.shape.features + tile.first_feature + feature) * depth;
    int values = 0;
    for (int i = half * middle; i < (half == 0 ? middle : depth); ++i) values += __ldg(weight + i) != 0.0f ? 1 : 0;
    return values;
}

// Whether a listed tile has lost too much; by all threads, a pixel and a feature for every two.
__device__ __forceinline__ bool has_lost(const Conv& p, const Tile& tile, int losses) {
    __shared__ int windows[kTile];
    __shared__ int weights;
    const int row = static_cast<int>(threadIdx.x) % kTile, half = static_cast<int>(threadIdx.x) / kTile;
    const bool sparse = is_weight_sparse(p);
    if (threadIdx.x < kTile) windows[row] = 0;
    if (threadIdx.x == 0) weights = 0;
    __syncthreads();
    const Window window = window_of(p, tile, row, half);
    atomicAdd(windows + row, window.values);
    if (sparse) atomicAdd(&weights, count_weight(p, tile, row, half));
    __syncthreads();
    const int features = tile.past_feature - tile.first_feature, depth = p.shape.depth();
    const float of_weight = sparse ? static_cast<float>(weights) / static_cast<float>(features * depth) : 1.0f;
    const float products = static_cast<float>(windows[row]) * of_weight;  // of a sum, in the mean of all features
    const bool few = products > 0.0f && products < static_cast<float>(p.all ? kFewestOfAll : kFewest);
    return __syncthreads_or(((losses & kFew) != 0 && few) || ((losses & kSmall) != 0 && (sparse || window.sparse)));
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

// Behind the convolution.
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
