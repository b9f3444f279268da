// Epilogues for the convolution of 64 pixels: sums for the statistics, or the result.
#pragma once

#include "sm90_tiles.cuh"

namespace kernelwright::conv_logsumexp::sm90 {

// Positions of a thread's two rows of a chunk in the result.
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

// Sums of a thread's 16 channels, shifted by the warp's first pixel against cancellation.
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

    // Reduces over the lanes that share the channels, and stores the sums in units of the products.
    __device__ __forceinline__ void store(Part (&parts)[kOut]) {
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
            const float off = sum[k] * share;
            const float around = fmaf(-sum[k], off, squares[k]);
            parts[channel] = {values, shift[k] + off, around < 0.0f ? 0.0f : around};
        }
    }
};

// Merges the parts of a tile from four warps.
__device__ __forceinline__ Part merged(const Part (&of_warp)[kGroup / 32][kOut], int channel, const Channel& by) {
    const float around = of_warp[0][channel].mean;
    float values = 0.0f, total = 0.0f, squares = 0.0f;
    #pragma unroll
    for (int warp = 0; warp < kGroup / 32; ++warp) {
        const Part part = of_warp[warp][channel];
        values += part.count;
        total = fmaf(part.count, part.mean - around, total);
    }
    const float off = values == 0.0f ? 0.0f : total / values;
    #pragma unroll
    for (int warp = 0; warp < kGroup / 32; ++warp) {
        const Part part = of_warp[warp][channel];
        const float apart = part.mean - around - off;
        squares += fmaf(part.count * apart, apart, part.squares);
    }
    return {values, fmaf(around + off, by.unit, by.level), squares * by.unit * by.unit};
}

// Stores a warpgroup's sums of a tile in parts [kOut]. All threads of the warpgroup call it.
__device__ __forceinline__ void store_sums(Sums& sums, Shared& shared, const Channel* channels, Part* parts) {
    const int group = threadIdx.x / kGroup, own = threadIdx.x % kGroup;
    some_sync(2 + group, kGroup);
    sums.store(shared.of_warp[group][own / 32]);
    some_sync(2 + group, kGroup);
    if (own < kOut) parts[own] = merged(shared.of_warp[group], own, channels[own]);
}

// Computes d = log2(e) * (c + hardswish(tanh(z))); see `activate`.
__device__ __forceinline__ void activate_chunk(float (&d)[32], const Channel* channels) {
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
        const Channel by[2] = {channels[8 * j + threadIdx.x % 4 * 2], channels[8 * j + threadIdx.x % 4 * 2 + 1]};
        float r[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) r[i] = 1.0f + power_of_2(fminf(fmaf(d[4 * j + i], by[i % 2].slope, by[i % 2].offset), 26.0f));
        invert(r, inverse);
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

}  // namespace kernelwright::conv_logsumexp::sm90
