// Cumulative sums of columns by strips, if there are enough strips for the whole GPU. A block walks down its strip while the
// next rows are copied to shared memory asynchronously, and waits for no other block. Only for GPUs with clusters.
#pragma once

#include "../../csrc/async_copy.cuh"
#include "held.cuh"

namespace kernelwright::cumsum {

constexpr int kStripWidth = kHeldWidth;  // packs of columns per strip
constexpr int kStripRows = 8;            // consecutive rows per thread and stage
constexpr int kStripStages = 6;          // stages of the ring: one is summed while five are in flight
constexpr int kStageRows = kReduceThreads / kStripWidth * kStripRows;
// Bytes of shared memory per block, so that one block fits an SM.
constexpr int64_t kStripBytes = int64_t{kStripStages} * kStripRows * kReduceThreads * kVectorBytes;

// Sums columns strip by strip. A thread reads only its own copies from the ring, so the copies need no barrier.
template <typename T, int V>
__global__ void __launch_bounds__(kReduceThreads) along_strips(
    const Pack<T, V>* x, Pack<T, V>* y, int length, int64_t packs, bool reverse) {
    extern __shared__ __align__(kVectorBytes) unsigned char room[];
    constexpr int kOfLane = kStripWidth * V / kWarp;  // columns per lane in the sum over the block's warps
    static_assert(kOfLane * kWarp == kStripWidth * V);
    __shared__ Pack<float, V> of_warp[2][kWarps][kStripWidth];
    auto* ring = reinterpret_cast<Pack<T, V>*>(room) + threadIdx.x;
    const int side = int(threadIdx.x) % kStripWidth, own = int(threadIdx.x) / kStripWidth * kStripRows;
    const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
    const unsigned strips = unsigned((packs + kStripWidth - 1) / kStripWidth);
    const int64_t column = blockIdx.x % strips * int64_t{kStripWidth} + side, outer = blockIdx.x / strips;
    const int64_t top = (outer * length + (reverse ? length - 1 : 0)) * packs + column, step = reverse ? -packs : packs;
    const int size = column < packs ? length : 0;
    await_earlier();
    // Returns the slot of the thread's row `u` in a stage.
    const auto copied = [&](int stage, int u) { return ring + (stage * kStripRows + u) * kReduceThreads; };
    const auto ask = [&](int stage, int begin) {
        const Pack<T, V>* from = x + top + (begin + own) * step;
        #pragma unroll
        for (int u = 0; u < kStripRows; ++u, from += step) {
            if (begin + own + u < size) copy_async(copied(stage, u), from);
        }
        copies_asked_for();
    };
    #pragma unroll
    for (int stage = 0; stage < kStripStages - 1; ++stage) ask(stage, stage * kStageRows);
    float carry[kOfLane] = {};
    int stage = 0, buffer = 0;
    for (int begin = 0; begin < length; begin += kStageRows, buffer ^= 1) {
        ask(stage == 0 ? kStripStages - 1 : stage - 1, begin + (kStripStages - 1) * kStageRows);
        copies_wait(kStripStages - 1);
        Pack<T, V> held[kStripRows];
        const int left = size - begin - own;
        Pack<float, V> sums{}, all;
        #pragma unroll
        for (int u = 0; u < kStripRows; ++u) {
            held[u] = u < left ? *copied(stage, u) : Pack<T, V>{};
            #pragma unroll
            for (int k = 0; k < V; ++k) sums.v[k] += to_float(held[u].v[k]);
        }
        #pragma unroll
        for (int k = 0; k < V; ++k) all.v[k] = scanned(sums.v[k], kStripWidth, kWarp);
        if (lane >= kWarp - kStripWidth) of_warp[buffer][warp][side] = all;
        __syncthreads();
        float before[kOfLane];
        #pragma unroll
        for (int n = 0; n < kOfLane; ++n) {
            before[n] = carry[n];
            #pragma unroll
            for (int other = 0; other < kWarps; ++other) {
                const int at = lane * kOfLane + n;
                const float more = of_warp[buffer][other][at / V].v[at % V];
                before[n] += other < warp ? more : 0.0f;
                carry[n] += more;
            }
        }
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            sums.v[k] += __shfl_sync(0xffffffff, before[k % kOfLane], side * (V / kOfLane) + k / kOfLane);
        }
        Pack<T, V>* to = y + top + (begin + own) * step;
        #pragma unroll
        for (int u = 0; u < kStripRows; ++u, to += step) {
            #pragma unroll
            for (int k = 0; k < V; ++k) held[u].v[k] = from_float<T>(sums.v[k] += to_float(held[u].v[k]));
            if (u < left) *to = held[u];
        }
        stage = stage == kStripStages - 1 ? 0 : stage + 1;
    }
}

inline int64_t strips_of(int64_t outer, int64_t packs) { return outer * divided_up(packs, kStripWidth); }

template <typename T, int V>
cudaError_t launch_strips(
    const Pack<T, V>* x, Pack<T, V>* y, int64_t outer, int64_t length, int64_t packs, bool reverse, cudaStream_t stream) {
    const auto kernel = along_strips<T, V>;
    const cudaError_t status = cudaFuncSetAttribute(
        reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, int(kStripBytes));
    if (status != cudaSuccess) return status;
    return launched_with(
        kernel, unsigned(strips_of(outer, packs)), kReduceThreads, kStripBytes, stream, x, y, int(length), packs, reverse);
}

// Returns true if strips of columns, `packs` packs wide in total, keep the SMs at least 90 % busy.
inline bool are_strips_enough(int64_t outer, int64_t length, int64_t packs, int64_t device) {
    int sms = 0;
    if (!has_clusters(device) || length > kMaxPart) return false;
    if (cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, int(device)) != cudaSuccess) return false;
    const int64_t strips = strips_of(outer, packs), waves = divided_up(strips, sms);
    return 10 * strips >= 9 * waves * sms && strips <= kMaxGrid;
}

}  // namespace kernelwright::cumsum
