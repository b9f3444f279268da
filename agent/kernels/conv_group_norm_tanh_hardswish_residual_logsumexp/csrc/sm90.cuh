// The convolution on the tensor cores with float accuracy, for 8 input and 64 output channels, sm_90a.
//
// Blocks are persistent. A producer warpgroup loads the next tile into registers until a stage is free. The consumer
// warpgroups take chunks of 64 pixels in turn, so that products of one chunk overlap with arithmetic of another. The first
// pass sums for the statistics, the second writes the result.
#pragma once

#include "sm90_chunks.cuh"

namespace kernelwright::conv_logsumexp::sm90 {

// Computes d = convolution of the 64 pixels from `first`, in units of the stage's channels. hi * lo + lo * hi + hi * hi omits
// 2^-24 of the product. The tensor cores truncate when they add, so the five hi * hi products come last: no others then add to
// sums of full size. In a model the rms error is 0.8 to 1.2e-7, like 72 float multiply-adds (0.9e-7). With hi * hi first the
// error would be three times as large.
__device__ __forceinline__ void multiply_chunk(float (&d)[32], const Shared& shared, const Stage& stage, int first, int pitch) {
    uint64_t x_hi[kSteps], x_lo[kSteps], weight_hi[kSteps], weight_lo[kSteps];
    #pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        const int tap = 2 * step, next = tap + 1;
        const int begin = first + tap / 3 * pitch + tap % 3;
        const int apart = next < kTaps ? next / 3 * pitch + next % 3 - tap / 3 * pitch - tap % 3 : 1;
        x_hi[step] = pieces_descriptor(stage.hi + begin, apart, 8);
        x_lo[step] = pieces_descriptor(stage.lo + begin, apart, 8);
        weight_hi[step] = pieces_descriptor(shared.weight_hi[tap], kOut, 8);
        weight_lo[step] = pieces_descriptor(shared.weight_lo[tap], kOut, 8);
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

template <Pass PASS>
__device__ __forceinline__ void take_chunks(Shared& shared, const Forward& f, const Plan& p, Part* parts) {
    const int group = threadIdx.x / kGroup;
    int round = 0;
    for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x, ++round) {
        const Place at = place_of(p, tile);
        const Stage& stage = shared.stages[round % kStages];
        Sums sums;
        if (PASS == kStatistics) sums.clear();
        barrier_wait(&shared.full[round % kStages], round / kStages % 2);
        for (int first = group * kChunk; first < p.tile_rows * p.pitch; first += kConsumers * kChunk) {
            float d[32];
            multiply_chunk(d, shared, stage, first, p.pitch);
            const Rows rows = rows_of(p, at, first);
            if (PASS == kResult) finish_chunk(d, rows, stage.channels, f, p, at.image);
            if (PASS == kStatistics) sums.add(d, rows, first == group * kChunk);
        }
        if (PASS == kStatistics) {
            const int64_t part = static_cast<int64_t>(tile) * kPartsOfTile + group;
            store_sums(sums, shared, stage.channels, parts + part * kOut);
        }
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(&shared.empty[round % kStages]);
    }
}

// Runs one pass. kStatistics writes parts [n, tiles_of_image * kPartsOfTile, kOut]; kResult reads norms [n, kOut].
template <Pass PASS>
__global__ void __launch_bounds__(kThreads, 1)
    convolve_tiles(const __grid_constant__ Forward f, const __grid_constant__ Plan p, Part* parts, const Norm* norms) {
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
        load_tiles<PASS>(shared, f, p, norms);
    } else {
        take_chunks<PASS>(shared, f, p, parts);
    }
}

}  // namespace kernelwright::conv_logsumexp::sm90
