// The convolution on the tensor cores in float's accuracy, for 8 input and 64 output channels, sm_90a.
//
// Pixels lie in shared memory as 8 channels in a row, 16 bytes of fp16. So 64 neighbouring pixels, seen from one tap, are
// an operand of a product as they lie, and the next tap is another beginning: two taps are the 16 of a product's depth,
// five pairs the 9 taps, the last with a weight of zero.
//
// A value is split, hi = fp16(v) and lo = fp16(v - hi), after its tile (or its channel's weights) was scaled by a power of
// two so that the largest lies in [2^13, 2^14): what fp16 then drops is 2^-38 of the largest. hi * lo + lo * hi + hi * hi
// leaves out 2^-24 of the product. The tensor cores cut off what they add up; only the last five products of fifteen,
// hi * hi, add to sums of full size. In a model of that the error is 0.8 to 1.2e-7 rms, as for 72 multiply-adds in float
// (0.9e-7); with hi * hi first it would be three times as much.
//
// A block is persistent. One warpgroup brings the tile after the present one, in registers until a stage is free; the
// others take its chunks of 64 pixels in turn, and their products overlap each other's arithmetic. What becomes of a
// chunk is the pass's: sums for the statistics, the stored convolution, or the result.
#pragma once

#include <cuda_fp16.h>

#include "portable.cuh"
#include "sm90_matrix.cuh"

namespace kernelwright::conv_logsumexp::sm90 {

constexpr int kIn = 8;
constexpr int kOut = 64;
constexpr int kMostPitch = 128;
constexpr int kGroup = 128;           // threads of a warpgroup
constexpr int kConsumers = 3;
constexpr int kThreads = (kConsumers + 1) * kGroup;
constexpr int kChunk = 64;
constexpr int kOwnPixels = 11;        // of a loading thread
constexpr int kPixels = kOwnPixels * kGroup;   // of a tile, with its border
constexpr int kTail = 72;             // pixels past a tile that products read, and nobody looks at: zero
constexpr int kStages = 2;
constexpr int kSteps = 5;             // products of depth 16
constexpr int kPartsOfTile = kConsumers * 4;   // one of each warp

// Tiles of `tile_rows` rows and `pitch` - 2 columns of the result; a tile's pixels are counted along its rows of `pitch`.
struct Plan {
    int height, width, rows, columns, pitch, tile_rows, across, tiles_of_image, tiles;
    uint32_t inverse_pitch;  // pixel / pitch = pixel * inverse_pitch >> 20
};

struct Pixel {
    __half v[kIn];
};

// What a sum of products becomes, for one channel: c = unit * sum + level. With the norm, in base 2:
// 2 log2(e) z = slope * sum + offset, and `level` holds hardswish's constant too.
struct alignas(16) Channel {
    float slope, offset, unit, level;
};

struct alignas(128) Stage {
    uint4 hi[kPixels + kTail];  // Pixel
    uint4 lo[kPixels + kTail];
    Channel channels[kOut];
};

struct alignas(128) Shared {
    Stage stages[kStages];
    __half weight_hi[2 * kSteps][kOut][kIn];
    __half weight_lo[2 * kSteps][kOut][kIn];
    float weight_unit[kOut];
    float largest[kGroup / 32];
    uint64_t full[kStages];
    uint64_t empty[kStages];
};

enum Pass { kStatistics, kStored, kResult };

// Where a pass writes, and what it reads beside the input.
struct Target {
    Part* parts;        // [n, tiles_of_image * kPartsOfTile, kOut]
    float* c;           // [n, kOut, rows, c_pitch]
    int c_pitch;
    const Norm* norms;  // [n, kOut]
};

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

// The power of two that brings `largest` into [2^13, 2^14); it and its inverse are normal numbers.
__device__ __forceinline__ float scale_for(float largest) {
    const int exponent = static_cast<int>(__float_as_uint(largest) >> 23) - 127;
    return __uint_as_float(static_cast<uint32_t>(min(max(13 - exponent, -126), 126) + 127) << 23);
}

__device__ __forceinline__ void split(float v, __half& hi, __half& lo) {
    hi = __float2half_rn(v);
    lo = __float2half_rn(v - __half2float(hi));
}

// By all threads, 8 for each channel: weights as [tap][channel][input channel].
__device__ inline void split_weights(Shared& shared, const float* weight) {
    const int channel = threadIdx.x / kIn, input = threadIdx.x % kIn;
    float v[2 * kSteps] = {};
    float largest = 0.0f;
    #pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
        v[tap] = weight[(channel * kIn + input) * kTaps + tap];
        largest = fmaxf(largest, fabsf(v[tap]));
    }
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

// The thread's pixels of a tile; zero outside the image.
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

// Of all threads of the loading warpgroup.
__device__ __forceinline__ float largest_of(const float (&v)[kOwnPixels][kIn], float* of_warp) {
    float largest = 0.0f;
    #pragma unroll
    for (int i = 0; i < kOwnPixels; ++i) {
        #pragma unroll
        for (int c = 0; c < kIn; ++c) largest = fmaxf(largest, fabsf(v[i][c]));
    }
    #pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    some_sync(1, kGroup);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x % kGroup / 32] = largest;
    some_sync(1, kGroup);
    #pragma unroll
    for (int warp = 0; warp < kGroup / 32; ++warp) largest = fmaxf(largest, of_warp[warp]);
    return largest;
}

template <Pass PASS>
__device__ __forceinline__ Channel channel_of(const Forward& f, const Target& to, int image, int channel, float unit) {
    const float bias = f.bias == nullptr ? 0.0f : f.bias[channel];
    if (PASS != kResult) return {0.0f, 0.0f, unit, bias};
    const Norm norm = to.norms[static_cast<int64_t>(image) * kOut + channel];
    const float offset = 2.0f * kLog2e * fmaf(bias, norm.scale, norm.shift);
    const float level = kLog2e * (bias + 2.0f / 3.0f);
    // A norm that is not a number is lost in the exponential's limit, and must not be.
    return {2.0f * kLog2e * norm.scale * unit, offset, kLog2e * unit, offset == offset ? level : offset};
}

template <Pass PASS>
__device__ __forceinline__ void load_tiles(Shared& shared, const Forward& f, const Plan& p, const Target& to) {
    int round = 0;
    for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x, ++round) {
        const Place at = place_of(p, tile);
        float v[kOwnPixels][kIn];
        load_pixels(v, f, p, at);
        const float scale = scale_for(largest_of(v, shared.largest));
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
            for (int c = 0; c < kIn; ++c) split(v[i][c] * scale, hi.values.v[c], lo.values.v[c]);
            stage.hi[pixel] = hi.bits;
            stage.lo[pixel] = lo.bits;
        }
        const int channel = threadIdx.x % kGroup;
        if (channel < kOut) {
            stage.channels[channel] = channel_of<PASS>(f, to, at.image, channel, shared.weight_unit[channel] / scale);
        }
        shared_written();
        barrier_arrive(&shared.full[round % kStages]);
    }
}

// d = the convolution of the 64 pixels from `first`, in units of the stage's channels.
__device__ __forceinline__ void multiply_chunk(float (&d)[32], const Shared& shared, const Stage& stage, int first, int pitch) {
    uint64_t x_hi[kSteps], x_lo[kSteps], weight_hi[kSteps], weight_lo[kSteps];
    #pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        const int tap = 2 * step, next = tap + 1;
        const int begin = first + tap / 3 * pitch + tap % 3;
        const int apart = next < kTaps ? next / 3 * pitch + next % 3 - tap / 3 * pitch - tap % 3 : 1;
        x_hi[step] = matrix_at(stage.hi + begin, apart, 8);
        x_lo[step] = matrix_at(stage.lo + begin, apart, 8);
        weight_hi[step] = matrix_at(shared.weight_hi[tap], kOut, 8);
        weight_lo[step] = matrix_at(shared.weight_lo[tap], kOut, 8);
    }
    matrix_begin();
    #pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        matrix_multiply(d, x_lo[step], weight_hi[step], step > 0);
        matrix_multiply(d, x_hi[step], weight_lo[step], 1);
    }
    #pragma unroll
    for (int step = 0; step < kSteps; ++step) matrix_multiply(d, x_hi[step], weight_hi[step], 1);
    matrix_wait(d);
}

// Where a thread's two rows of a chunk lie in the result.
struct Rows {
    int row[2], column[2];
    bool counts[2];
};

__device__ __forceinline__ Rows rows_of(const Plan& p, const Place& at, int first) {
    Rows rows;
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        const uint32_t pixel = first + threadIdx.x % kGroup / 32 * 16 + threadIdx.x % 32 / 4 + 8 * half;
        const int down = static_cast<int>(pixel * p.inverse_pitch >> 20), across = static_cast<int>(pixel) - down * p.pitch;
        rows.row[half] = at.row + down;
        rows.column[half] = at.column + across;
        rows.counts[half] = down < p.tile_rows && across < p.pitch - 2 && rows.row[half] < p.rows && rows.column[half] < p.columns;
    }
    return rows;
}

// The sums of a thread's 16 channels around a value of the warp's first pixel.
struct Sums {
    float shift[16], sum[16], squares[16];
    int count;

    __device__ __forceinline__ void clear() {
        #pragma unroll
        for (int k = 0; k < 16; ++k) shift[k] = sum[k] = squares[k] = 0.0f;
        count = 0;
    }

    __device__ __forceinline__ void add(const float (&d)[32], const Rows& rows, bool is_first) {
        if (is_first) {
            #pragma unroll
            for (int k = 0; k < 16; ++k) shift[k] = __shfl_sync(0xffffffffu, d[k / 2 * 4 + k % 2], threadIdx.x % 4);
        }
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            if (!rows.counts[half]) continue;
            ++count;
            #pragma unroll
            for (int k = 0; k < 16; ++k) {
                const float off = d[k / 2 * 4 + 2 * half + k % 2] - shift[k];
                sum[k] += off;
                squares[k] = fmaf(off, off, squares[k]);
            }
        }
    }

    // Over the lanes that share the channels, into parts [kOut].
    __device__ __forceinline__ void store(Part* parts, const Channel* channels) {
        #pragma unroll
        for (int offset = 4; offset < 32; offset *= 2) {
            count += __shfl_xor_sync(0xffffffffu, count, offset);
            #pragma unroll
            for (int k = 0; k < 16; ++k) {
                sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], offset);
                squares[k] += __shfl_xor_sync(0xffffffffu, squares[k], offset);
            }
        }
        if (threadIdx.x % 32 >= 4) return;
        const float values = static_cast<float>(count), share = count == 0 ? 0.0f : 1.0f / values;
        #pragma unroll
        for (int k = 0; k < 16; ++k) {
            const int channel = k / 2 * 8 + threadIdx.x % 4 * 2 + k % 2;
            const Channel by = channels[channel];
            const float off = sum[k] * share;
            const float around = fmaf(-sum[k], off, squares[k]);
            const float mean = count == 0 ? 0.0f : fmaf(shift[k] + off, by.unit, by.level);
            parts[channel] = {values, mean, around < 0.0f ? 0.0f : around * by.unit * by.unit};
        }
    }
};

__device__ __forceinline__ void store_chunk(const float (&d)[32], const Rows& rows, const Channel* channels, const Target& to,
                                            const Plan& p, int image) {
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (!rows.counts[half]) continue;
        #pragma unroll
        for (int k = 0; k < 16; ++k) {
            const int channel = k / 2 * 8 + threadIdx.x % 4 * 2 + k % 2;
            const int64_t plane = static_cast<int64_t>(image) * kOut + channel;
            to.c[(plane * p.rows + rows.row[half]) * to.c_pitch + rows.column[half]] =
                fmaf(d[k / 2 * 4 + 2 * half + k % 2], channels[channel].unit, channels[channel].level);
        }
    }
}

// v = 1 / v of each, with one reciprocal; their product must be finite.
__device__ __forceinline__ void invert(float (&v)[4]) {
    const float front = v[0] * v[1], back = v[2] * v[3];
    const float of_all = inverse(front * back);
    const float of_front = of_all * back, of_back = of_all * front;
    const float kept[4] = {v[0], v[1], v[2], v[3]};
    v[0] = of_front * kept[1], v[1] = of_front * kept[0], v[2] = of_back * kept[3], v[3] = of_back * kept[2];
}

// d = log2(e) * (c + hardswish(tanh(z))), as `activated` has it. tanh is 1 in float from 2 log2(e) z = 26 on.
__device__ __forceinline__ void activate_chunk(float (&d)[32], const Channel* channels) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
        const Channel by[2] = {channels[8 * j + threadIdx.x % 4 * 2], channels[8 * j + threadIdx.x % 4 * 2 + 1]};
        float r[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) r[i] = 1.0f + power_of_2(fminf(fmaf(d[4 * j + i], by[i % 2].slope, by[i % 2].offset), 26.0f));
        invert(r);
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float bent = fmaf(r[i], 2.0f / 3.0f * kLog2e, -5.0f / 3.0f * kLog2e);
            d[4 * j + i] = fmaf(d[4 * j + i], by[i % 2].unit, fmaf(r[i], bent, by[i % 2].level));
        }
    }
}

__device__ __forceinline__ void finish_chunk(float (&d)[32], const Rows& rows, const Channel* channels, const Forward& f,
                                             const Plan& p, int image) {
    activate_chunk(d, channels);
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        float largest = d[2 * half];
        #pragma unroll
        for (int k = 1; k < 16; ++k) largest = fmaxf(largest, d[k / 2 * 4 + 2 * half + k % 2]);
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
        float sum = 0.0f;
        #pragma unroll
        for (int k = 0; k < 16; ++k) sum += power_of_2(d[k / 2 * 4 + 2 * half + k % 2] - largest);
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        if (rows.counts[half] && threadIdx.x % 4 == 0) {
            f.y[(static_cast<int64_t>(image) * p.rows + rows.row[half]) * p.columns + rows.column[half]] =
                (largest + log2f(sum)) * kLn2;
        }
    }
}

template <Pass PASS>
__device__ __forceinline__ void take_chunks(Shared& shared, const Forward& f, const Plan& p, const Target& to) {
    const int group = threadIdx.x / kGroup;
    int round = 0;
    for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x, ++round) {
        const Place at = place_of(p, tile);
        const Stage& stage = shared.stages[round % kStages];
        Sums sums;
        if (PASS != kResult) sums.clear();
        barrier_wait(&shared.full[round % kStages], round / kStages % 2);
        for (int first = group * kChunk; first < p.tile_rows * p.pitch; first += kConsumers * kChunk) {
            float d[32];
            multiply_chunk(d, shared, stage, first, p.pitch);
            const Rows rows = rows_of(p, at, first);
            if (PASS == kResult) finish_chunk(d, rows, stage.channels, f, p, at.image);
            if (PASS == kStored) store_chunk(d, rows, stage.channels, to, p, at.image);
            if (PASS != kResult) sums.add(d, rows, first == group * kChunk);
        }
        if (PASS != kResult) {
            const int64_t part = static_cast<int64_t>(tile) * kPartsOfTile + threadIdx.x / 32;
            sums.store(to.parts + part * kOut, stage.channels);
        }
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(&shared.empty[round % kStages]);
    }
}

template <Pass PASS>
__global__ void __launch_bounds__(kThreads, 1)
    convolve_tiles(const __grid_constant__ Forward f, const __grid_constant__ Plan p, const __grid_constant__ Target to) {
    extern __shared__ uint4 memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
            barrier_init(&shared.full[stage], kGroup);
            barrier_init(&shared.empty[stage], kConsumers * kGroup / 32);
        }
        barriers_made();
    }
    split_weights(shared, f.weight);
    clear_tails(shared);
    shared_written();
    __syncthreads();
    if (threadIdx.x >= kConsumers * kGroup) {
        load_tiles<PASS>(shared, f, p, to);
    } else {
        take_chunks<PASS>(shared, f, p, to);
    }
}

}  // namespace kernelwright::conv_logsumexp::sm90
