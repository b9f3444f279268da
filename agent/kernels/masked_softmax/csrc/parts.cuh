// Sum of a tensor's equal contiguous parts: the gradient of a mask that all parts share.
#pragma once

#include "../../csrc/launched.cuh"
#include "../../csrc/partition.cuh"

namespace kernelwright::masked_softmax {

constexpr int kPartPacks = 8;    // packs of each part, summed by a block: 128 bytes
constexpr int kPartLines = 32;   // parts that a block reads side by side
constexpr int kPartsAtOnce = 8;  // parts that a thread has in flight

// Sums parts of `packs` packs each, times `factor`.
template <typename T, int V>
__global__ void __launch_bounds__(kPartPacks* kPartLines) sum_parts(
    const T* x, T* __restrict__ sums, int64_t parts, int64_t packs, float factor) {
    await_earlier();
    constexpr int kWide = kPartPacks * V, kWarps = kPartPacks * kPartLines / kWarp;
    __shared__ float of_warp[kWarps][kWide];
    const int64_t first = int64_t{blockIdx.x} * kPartPacks, place = first + threadIdx.x;
    const auto* from = reinterpret_cast<const Pack<T, V>*>(x) + place;
    float sum[V] = {};
    for (int64_t part = threadIdx.y; part < parts; part += kPartLines * kPartsAtOnce) {
        Pack<T, V> read[kPartsAtOnce];
        #pragma unroll
        for (int u = 0; u < kPartsAtOnce; ++u) {
            const int64_t here = part + u * kPartLines;
            read[u] = Pack<T, V>{};
            if (here < parts && place < packs) read[u] = from[here * packs];
        }
        #pragma unroll
        for (int i = 0; i < kPartsAtOnce * V; ++i) sum[i % V] += to_float(read[i / V].v[i % V]);
    }
    const int thread = int(threadIdx.y) * kPartPacks + int(threadIdx.x);
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        #pragma unroll
        for (int lanes = kPartPacks; lanes < kWarp; lanes *= 2) sum[k] += __shfl_xor_sync(0xffffffff, sum[k], lanes);
        if (thread % kWarp < kPartPacks) of_warp[thread / kWarp][int(threadIdx.x) * V + k] = sum[k];
    }
    __syncthreads();
    if (thread >= kWide || first * V + thread >= packs * V) return;
    float all = 0.0f;
    #pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) all += of_warp[warp][thread];
    sums[first * V + thread] = from_float<T>(all * factor);
}

template <typename T>
cudaError_t launch_sum_parts(
    const T* x, T* sums, int64_t parts, int64_t count, float factor, cudaStream_t stream) {
    const auto start = [&](auto kernel, int64_t packs) {
        const int64_t blocks = (packs + kPartPacks - 1) / kPartPacks;
        if (blocks > kMaxGrid) return cudaErrorInvalidValue;
        return launched(kernel, unsigned(blocks), dim3(kPartPacks, kPartLines), stream, x, sums, parts, packs, factor);
    };
    if (aligned(x) && count % kVector<T> == 0) return start(sum_parts<T, kVector<T>>, count / kVector<T>);
    return start(sum_parts<T, 1>, count);
}

}  // namespace kernelwright::masked_softmax
