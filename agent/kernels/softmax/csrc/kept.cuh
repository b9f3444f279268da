// Softmax of rows in shared memory, for GPUs with clusters.
#pragma once

#include "../../csrc/async_copy.cuh"
#include "call.cuh"

namespace kernelwright::softmax {

constexpr unsigned kKeptThreads = 256;
constexpr int kKeptParts = 4;  // parts of a row; a part is processed while later parts are in flight

// Computes a row that exceeds registers, in the shared memory of its team. A thread only reads what it has copied
// itself.
template <typename T, int V>
__global__ void __launch_bounds__(kKeptThreads) kept_rows(
    const T* x, T* __restrict__ y, int64_t rows, int64_t length) {
    Team::template meet<Partition>();
    await_earlier();
    extern __shared__ __align__(kVectorBytes) unsigned char kept[];
    __shared__ Partition of_warp[kMaxWarps];
    const int64_t index = Team::row();
    const int thread = Team::thread(), step = Team::threads();
    const Row row = row_at<false, V>(index, length);
    const auto* from = reinterpret_cast<const Pack<T, V>*>(x + row.first) + thread;
    auto* to = reinterpret_cast<Pack<T, V>*>(y + row.first) + thread;
    auto* mine = reinterpret_cast<Pack<T, V>*>(kept) + threadIdx.x;
    const int64_t end = end_at<false, V>(row, thread);
    const int count = (int(row.packs) - thread + step - 1) / step;
    constexpr int kAtOnce = kTile / V;
    const int part = (count + kKeptParts * kAtOnce - 1) / (kKeptParts * kAtOnce) * kAtOnce;
    #pragma unroll 1
    for (int i = 0; i < kKeptParts; ++i) {
        for (int u = i * part; u < min((i + 1) * part, count); ++u) {
            copy_async(mine + u * int(kKeptThreads), from + int64_t{u} * step);
        }
        copies_asked_for();
    }
    float of_end[1] = {end_value(x, end)};
    Partition all = {-INFINITY, 0.0f};
    #pragma unroll 1
    for (int i = 0; i < kKeptParts; ++i) {
        copies_wait(kKeptParts - 1 - i);
        const int behind = min((i + 1) * part, count);
        for (int u = i * part; u < behind; u += kAtOnce) {
            float tile[kTile];
            load_tile(mine + u * int(kKeptThreads), behind - u, 1, kKeptThreads, tile);
            all = add_tile<T>(all, tile);
        }
    }
    const float last = of_end[0];
    all = Team::merged(add_tile<T>(all, of_end), of_warp);
    const float level = level_of(all.max), factor = inverse(all);
    #pragma unroll 2
    for (int u = 0; u < count; ++u) {
        Pack<T, V> pack = mine[u * int(kKeptThreads)];
        #pragma unroll
        for (T& value : pack.v) value = from_float<T>(exp_for<T>(to_float(value) - level) * factor);
        to[int64_t{u} * step] = pack;
    }
    if (end >= 0) y[end] = from_float<T>(exp_for<T>(last - level) * factor);
}

#ifndef KW_PORTABLE_ONLY
constexpr int64_t kKeptBytes = 72 << 10;       // bytes of a row per block, so that three blocks fit on an SM
constexpr int64_t kMostKeptBytes = 224 << 10;  // for rows that exceed kKeptBytes in each block of the largest cluster

// Launch shape of kept_rows for rows of `packs` packs.
struct Kept {
    int64_t blocks = 1, bytes;  // blocks in a cluster, and bytes per block

    explicit Kept(int64_t packs) {
        while (blocks < kMaxCluster && bytes_of(packs) > kKeptBytes) blocks *= 2;
        bytes = bytes_of(packs);
    }

private:
    int64_t bytes_of(int64_t packs) const {
        const int64_t threads = blocks * kKeptThreads;
        return (packs + threads - 1) / threads * kKeptThreads * kVectorBytes;
    }
};

template <typename T, int V>
cudaError_t launch_kept_rows(const Forward& args, Kept shape) {
    const auto kernel = kept_rows<T, V>;
    const cudaError_t error = cudaFuncSetAttribute(
        reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, int(shape.bytes));
    if (error != cudaSuccess) return error;
    return launched_as(
        kernel, unsigned(shape.blocks), unsigned(shape.blocks * args.outer), kKeptThreads, size_t(shape.bytes),
        args.stream, static_cast<const T*>(args.x), static_cast<T*>(args.y), args.outer, args.length);
}
#endif

}  // namespace kernelwright::softmax
