// A tile of the input as an operand of the tensor cores: its layout in shared memory, and the loads that fill it.
//
// A pixel is stored as its 8 channels, 16 bytes of fp16. For one tap, 64 adjacent pixels are an operand of a product without a
// copy, and another tap is just another start address. Two taps make up a K of 16, so five pairs of taps cover the 9 taps; the
// tenth tap has zero weights.
//
// A value is split as hi = fp16(v) and lo = fp16(v - hi). Before the split, the tile (or a channel's weights) is scaled by a
// power of two so that the largest magnitude lies in [2^13, 2^14). fp16 then drops 2^-38 of the largest. The mean of each input
// channel is subtracted from the tile first, and `level` adds it back through the sums of the weights. The tensor cores
// truncate when they add, and a mean of 30 deviations would make the truncation error 40 times larger.
#pragma once

#include <cuda_fp16.h>

#include "portable.cuh"
#include "sm90_instructions.cuh"

namespace kernelwright::conv_logsumexp::sm90 {

constexpr int kIn = 8;
constexpr int kOut = 64;
constexpr int kMostPitch = 128;
constexpr int kGroup = 128;           // threads per warpgroup
constexpr int kConsumers = 3;
constexpr int kThreads = (kConsumers + 1) * kGroup;
constexpr int kChunk = 64;
constexpr int kOwnPixels = 11;        // pixels per thread of the producer
constexpr int kPixels = kOwnPixels * kGroup;   // pixels of a tile with its border
constexpr int kTail = 72;             // zero pixels past a tile that products read without using the result
constexpr int kStages = 2;
constexpr int kSteps = 5;             // products with a K of 16
constexpr int kPartsOfTile = kConsumers;

// Tiles of `tile_rows` rows and `pitch` - 2 columns of the result. A tile's pixels are numbered along input rows of `pitch`.
struct Plan {
    int height, width, rows, columns, pitch, tile_rows, across, tiles_of_image, tiles;
    uint32_t inverse_pitch;  // pixel / pitch = pixel * inverse_pitch >> 20
};

struct Pixel {
    __half v[kIn];
};

// Maps a sum of products to one channel's values. kStatistics: c = unit * sum + level. kResult, in base 2:
// 2 log2(e) z = slope * sum + offset, and `level` includes hardswish's constant.
struct alignas(16) Channel {
    float slope, offset, unit, level;
};

struct alignas(128) Stage {
    uint4 hi[kPixels + kTail];  // hi of each pixel's 8 channels, as a Pixel
    uint4 lo[kPixels + kTail];
    Channel channels[kOut];
};

struct alignas(128) Shared {
    Stage stages[kStages];
    __half weight_hi[2 * kSteps][kOut][kIn];
    __half weight_lo[2 * kSteps][kOut][kIn];
    double weight_sums[kOut][kIn];
    float weight_unit[kOut];
    float largest[kGroup / 32];
    float means[kGroup / 32][kIn];
    Part of_warp[kConsumers][kGroup / 32][kOut];
    uint64_t full[kStages];
    uint64_t empty[kStages];
};

enum Pass { kStatistics, kResult };

inline Plan plan_of(const Forward& f) {
    Plan p;
    p.height = static_cast<int>(f.height), p.width = static_cast<int>(f.width);
    p.rows = p.height - 2, p.columns = p.width - 2;
    p.pitch = p.width < kMostPitch ? p.width : kMostPitch;
    const int fitting = kPixels / p.pitch - 2;
    p.tile_rows = fitting < p.rows ? fitting : p.rows;
    p.across = (p.columns + p.pitch - 3) / (p.pitch - 2);
    p.tiles_of_image = p.across * ((p.rows + p.tile_rows - 1) / p.tile_rows);
    p.tiles = p.tiles_of_image * static_cast<int>(f.n);
    p.inverse_pitch = (1u << 20) / p.pitch + 1;
    return p;
}

struct Place {
    int image, row, column;
};

__device__ __forceinline__ Place place_of(const Plan& p, int tile) {
    const int in_image = tile % p.tiles_of_image;
    return {tile / p.tiles_of_image, in_image / p.across * p.tile_rows, in_image % p.across * (p.pitch - 2)};
}

// Returns the power of two that scales `largest` into [2^13, 2^14). The power and its inverse are normal numbers.
__device__ __forceinline__ float scale_for(float largest) {
    const int exponent = static_cast<int>(__float_as_uint(largest) >> 23) - 127;
    return __uint_as_float(static_cast<uint32_t>(min(max(13 - exponent, -126), 126) + 127) << 23);
}

__device__ __forceinline__ void split(float v, __half& hi, __half& lo) {
    hi = __float2half_rn(v);
    lo = __float2half_rn(v - __half2float(hi));
}

// Splits the weights into [tap][channel][input channel]. All threads call it, 8 per channel.
__device__ inline void split_weights(Shared& shared, const float* weight) {
    const int channel = threadIdx.x / kIn, input = threadIdx.x % kIn;
    float v[2 * kSteps] = {};
    float largest = 0.0f;
    double sum = 0.0;
    #pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
        v[tap] = weight[(channel * kIn + input) * kTaps + tap];
        largest = fmaxf(largest, fabsf(v[tap]));
        sum += v[tap];
    }
    shared.weight_sums[channel][input] = sum;
    for (int offset = 1; offset < kIn; offset *= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    const float scale = scale_for(largest);
    #pragma unroll
    for (int tap = 0; tap < 2 * kSteps; ++tap) {
        split(v[tap] * scale, shared.weight_hi[tap][channel][input], shared.weight_lo[tap][channel][input]);
    }
    if (input == 0) shared.weight_unit[channel] = 1.0f / scale;
}

__device__ inline void clear_tails(Shared& shared) {
    for (int i = threadIdx.x; i < kStages * kTail; i += kThreads) {
        shared.stages[i / kTail].hi[kPixels + i % kTail] = make_uint4(0, 0, 0, 0);
        shared.stages[i / kTail].lo[kPixels + i % kTail] = make_uint4(0, 0, 0, 0);
    }
}

// Loads the thread's pixels of a tile; zero outside the image.
__device__ __forceinline__ void load_pixels(float (&v)[kOwnPixels][kIn], const Forward& f, const Plan& p, const Place& at) {
    const int plane = p.height * p.width;
    const float* image = f.x + static_cast<int64_t>(at.image) * kIn * plane;
    #pragma unroll
    for (int i = 0; i < kOwnPixels; ++i) {
        const uint32_t pixel = threadIdx.x % kGroup + i * kGroup;
        const int down = static_cast<int>(pixel * p.inverse_pitch >> 20);
        const int row = at.row + down, column = at.column + static_cast<int>(pixel) - down * p.pitch;
        const bool inside = row < p.height && column < p.width && down < p.tile_rows + 2;
        const uint32_t from = inside ? row * p.width + column : 0;
        #pragma unroll
        for (int c = 0; c < kIn; ++c) v[i][c] = inside ? __ldg(image + (from + c * plane)) : 0.0f;
    }
}

// Returns the scale of the tile, from the maxima of the warps.
__device__ __forceinline__ float scale_of(const Shared& shared) {
    float largest = 0.0f;
    #pragma unroll
    for (int warp = 0; warp < kGroup / 32; ++warp) largest = fmaxf(largest, shared.largest[warp]);
    return scale_for(largest);
}

// Returns the mean of an input channel of the tile.
__device__ __forceinline__ float mean_of(const Shared& shared, int input) {
    float mean = 0.0f;
    #pragma unroll
    for (int warp = 0; warp < kGroup / 32; ++warp) mean += shared.means[warp][input];
    return mean;
}

// Computes v = (v - mean of its channel) * scale, below 2^15. All threads of the producer call it. `count` pixels lie inside
// the image; all other pixels are zero.
__device__ __forceinline__ void center(float (&v)[kOwnPixels][kIn], int count, Shared& shared) {
    const float share = 1.0f / static_cast<float>(count);
    const int own = threadIdx.x % kGroup / 32;
    float largest = 0.0f;
    #pragma unroll
    for (int i = 0; i < kOwnPixels; ++i) {
        #pragma unroll
        for (int c = 0; c < kIn; ++c) largest = fmaxf(largest, fabsf(v[i][c]));
    }
    some_sync(1, kGroup);
    #pragma unroll
    for (int c = 0; c < kIn; ++c) {
        float mean = 0.0f;
        #pragma unroll
        for (int i = 0; i < kOwnPixels; ++i) mean = fmaf(v[i][c], share, mean);
        #pragma unroll
        for (int offset = 16; offset > 0; offset /= 2) mean += __shfl_xor_sync(0xffffffffu, mean, offset);
        if (threadIdx.x % 32 == 0) shared.means[own][c] = mean;
    }
    #pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    if (threadIdx.x % 32 == 0) shared.largest[own] = largest;
    some_sync(1, kGroup);
    const float scale = scale_of(shared);
    #pragma unroll
    for (int c = 0; c < kIn; ++c) {
        const float shift = -mean_of(shared, c) * scale;
        #pragma unroll
        for (int i = 0; i < kOwnPixels; ++i) v[i][c] = fmaf(v[i][c], scale, shift);
    }
}

template <Pass PASS>
__device__ __forceinline__ Channel channel_of(const Shared& shared, const Forward& f, const Norm* norms, int image, int channel) {
    const float unit = shared.weight_unit[channel] / scale_of(shared);
    double level = f.bias == nullptr ? 0.0 : f.bias[channel];
    #pragma unroll
    for (int c = 0; c < kIn; ++c) level += mean_of(shared, c) * shared.weight_sums[channel][c];
    if (PASS == kStatistics) return {0.0f, 0.0f, unit, static_cast<float>(level)};
    const Norm norm = norms[static_cast<int64_t>(image) * kOut + channel];
    const float offset = static_cast<float>(level * norm.scale + norm.shift);
    const float with_constant = static_cast<float>(kLog2e * (level + 2.0 / 3.0));
    // The exponential's clamp would hide a NaN of the norm; `level` carries it through.
    return {norm.scale * unit, offset, kLog2e * unit, offset == offset ? with_constant : offset};
}

template <Pass PASS>
__device__ __forceinline__ void load_tiles(Shared& shared, const Forward& f, const Plan& p, const Norm* norms) {
    int round = 0;
    for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x, ++round) {
        const Place at = place_of(p, tile);
        float v[kOwnPixels][kIn];
        load_pixels(v, f, p, at);
        const int count = min(p.tile_rows + 2, p.height - at.row) * min(p.pitch, p.width - at.column);
        center(v, count, shared);
        Stage& stage = shared.stages[round % kStages];
        barrier_wait(&shared.empty[round % kStages], (round / kStages + 1) % 2);
        #pragma unroll
        for (int i = 0; i < kOwnPixels; ++i) {
            const int pixel = threadIdx.x % kGroup + i * kGroup;
            union {
                Pixel values;
                uint4 bits;
            } hi, lo;
            #pragma unroll
            for (int c = 0; c < kIn; ++c) split(v[i][c], hi.values.v[c], lo.values.v[c]);
            stage.hi[pixel] = hi.bits;
            stage.lo[pixel] = lo.bits;
        }
        const int channel = threadIdx.x % kGroup;
        if (channel < kOut) stage.channels[channel] = channel_of<PASS>(shared, f, norms, at.image, channel);
        shared_written();
        barrier_arrive(&shared.full[round % kStages]);
    }
}

}  // namespace kernelwright::conv_logsumexp::sm90
