// What small values lose in a convolution, and tiles that are computed anew in float arithmetic where it shows; the bound is that
// of matmul_fp32x3/csrc/anew_sm90.cuh, with the pixels' windows as a and the weight as b.
//
// Two kernels behind the convolution. The first compares each pixel's sums in a tile of 128 features with what its window's small
// values may have lost beside the largest; two features nearly always show that it is nothing. It lists the tiles where it may be
// more. The second goes through the windows of those: where every half of a stage of a pixel that may have lost is dense, and the
// weight is too, sums are small because products of either sign cancel, which costs a float sum as much. The other tiles are
// computed anew.
#pragma once

#include "product_portable.cuh"
#include "product_sm90.cuh"

namespace kernelwright::conv {

constexpr int kLookedAt = 2;           // features at a time
constexpr int kAnewDepth = 128;        // that is added up by itself
constexpr float kNeeded = 46341.0f;    // 2^(26.5 - 11), of the powers of two that values are scaled by
static_assert(kTile == kSide && kPlainThreads == kGatherers);

// The power of two that the largest value of the weight's rows in a tile stands for, by a warp.
__device__ __forceinline__ float weight_scale(const Conv& p, const Place& place) {
    const int* exponents = p.exponents + (static_cast<int64_t>(place.group) * p.of_group() + place.features) * kTile;
    const int4 four = __ldcg(reinterpret_cast<const int4*>(exponents) + threadIdx.x % 32);
    int least = min(min(four.x, four.y), min(four.z, four.w));
    for (int lanes = 16; lanes > 0; lanes /= 2) least = min(least, __shfl_xor_sync(0xffffffffu, least, lanes));
    return matmul::scale_of(-least);
}

// Whether a pixel may have lost too much in a tile; by a warp, of neighbours.
__device__ __forceinline__ bool is_lost(const Conv& p, const Place& place, int row) {
    const Shape& s = p.shape;
    const int number = place.pixels * kTile + row;
    const int first = place.features * kTile, features = min(kTile, s.features - first);
    const float* y = p.y + place_in_y(s, min(number, s.pixels() - 1)) + (static_cast<int64_t>(place.group) * s.features + first) * s.plane;
    const int* largest = p.largest + (static_cast<int64_t>(place.pixels) * s.groups + place.group) * kGatherers + row;
    const int exponent = matmul::exponent_for(max(__ldcg(largest), __ldcg(largest + kTile)));
    const float scale = exponent < matmul::kNoValue && number < s.pixels() ? matmul::scale_of(-exponent) : 0.0f;
    const float needed = kNeeded * sqrtf(2.0f * static_cast<float>(s.depth())) * scale * weight_scale(p, place);
    const float share = 0.97f * rsqrtf(static_cast<float>(features));  // what the largest says of the size of all, not above
    float most = 0.0f, all = 0.0f;
    for (int j = 0; j < features; j += kLookedAt) {
        #pragma unroll
        for (int i = 0; i < kLookedAt; ++i) {
            const float size = j + i < features ? fabsf(__ldcg(y + (j + i) * s.plane)) : 0.0f;
            most = fmaxf(most, size), all += size;
        }
        if (__all_sync(0xffffffffu, most * share >= needed)) return false;
    }
    return fmaxf(most * share, all / static_cast<float>(features)) < needed;
}

// Lists the tiles that may have lost too much; a block for each.
__global__ void __launch_bounds__(kTile) conv_look(const __grid_constant__ Conv p) {
    await_earlier();
    let_next_begin();
    const int number = static_cast<int>(blockIdx.x);
    const bool of_pixel = is_lost(p, place_at<kTile>(p, number), static_cast<int>(threadIdx.x));
    const bool lost = __syncthreads_or(of_pixel) && threadIdx.x == 0;
    if (lost) p.list[atomicAdd(p.lost, 1)] = number;
}

// Whether a half of a stage of a pixel's window is not dense; values of the padding do not count. `half`: of every stage.
__device__ __forceinline__ bool is_sparse(const Conv& p, const Place& place, int row, int half) {
    const Pixel pixel = pixel_at(p.shape, place.pixels * kTile + row);
    const float* window = p.x + pixel.first + place.group * p.shape.group_values();
    for (int i = 0; i < p.cut.stages; ++i) {
        const Tap* taps = p.taps + i * kDepth + half * kOfThread;
        float v[kOfThread];
        gather(v, window, pixel.mask, taps);
        int there = 0;
        #pragma unroll
        for (int j = 0; j < kOfThread; ++j) {
            const unsigned needed = taps[j].needed;
            there += (pixel.mask & needed) == needed ? 1 : 0;
        }
        const int exponent = matmul::exponent_for(matmul::largest_of<kOfThread>(v));
        if (8 * matmul::count_large<kOfThread>(v, exponent, false) < 5 * there) return true;
    }
    return false;
}

// Of so few that are not dense nothing is said, as in matmul_fp32x3.
__device__ __forceinline__ bool is_weight_sparse(const Conv& p) {
    const Shape& s = p.shape;
    return __ldcg(p.sparse) * int64_t{64 * matmul::kHalf} > static_cast<int64_t>(s.groups) * s.features * s.depth();
}

__device__ __forceinline__ void compute_tile(const Conv& p, const Place& place, Slices& slices) {
    const Plain plain = {p.shape, p.x, p.plain, p.bias, p.y, p.taps};
    const Tile tile = {place.pixels * kTile, place.features * kTile, place.group};
    const int depth = p.shape.depth();
    float all[8][8] = {};
    int now = 0;
    for (int begin = 0; begin < depth; begin += kAnewDepth) {
        float sum[8][8] = {};
        multiply_range(sum, slices, now, plain, tile, begin, min(begin + kAnewDepth, depth));
        #pragma unroll
        for (int i = 0; i < 64; ++i) all[i / 8][i % 8] += sum[i / 8][i % 8];
    }
    store_tile(all, plain, tile);
}

// Computes those of the listed tiles anew that have lost too much.
__global__ void __launch_bounds__(kPlainThreads, 1) conv_anew(const __grid_constant__ Conv p) {
    await_earlier();
    const int lost = __ldcg(p.lost);
    __shared__ Slices slices;
    for (int i = blockIdx.x; i < lost; i += gridDim.x) {
        const Place place = place_at<kTile>(p, __ldcg(p.list + i));
        const int row = static_cast<int>(threadIdx.x) % kTile, half = static_cast<int>(threadIdx.x) / kTile;
        const bool anew = is_lost(p, place, row) && (is_weight_sparse(p) || is_sparse(p, place, row, half));
        if (__syncthreads_or(anew)) compute_tile(p, place, slices);
    }
}

inline cudaError_t compute_anew(const Conv& p, int64_t tiles, int64_t sms, cudaStream_t stream) {
    if (tiles > kMostBlocks) return cudaErrorInvalidValue;
    const cudaError_t error = launched(conv_look, static_cast<unsigned>(tiles), kTile, stream, p);
    if (error != cudaSuccess) return error;
    return launched(conv_anew, static_cast<unsigned>(std::min(sms, tiles)), kPlainThreads, stream, p);
}

}  // namespace kernelwright::conv
