// LayerNorm and RMSNorm forward, also of x + residual, for rows that exceed a block's registers and for few long rows.
// Each block of a cluster holds part of the row in shared memory, so that the row is read once. Compute capability 9.
#pragma once

#include "norm_held.cuh"
#ifndef KW_PORTABLE_ONLY
#include "bulk_sm90.cuh"
#include "cluster_sm90.cuh"

namespace kernelwright {

constexpr int kClusteredBlocks = 8;  // blocks that share a row
constexpr int kClusteredThreads = 256;
constexpr int kClusteredPieces = 4;  // chunks in which a block's part of the row arrives
constexpr int kClusteredPacks = 2;  // packs of a thread whose parameters are loaded together
constexpr int64_t kClusteredBytes = 200 << 10;  // maximum shared memory for a block's part
static_assert(kClusteredBlocks <= kMaxCluster);

// RMSNorm has no bias; `residual` and `added` are null unless kSum. A block holds up to `part` packs of the row.
template <bool kCentred, bool kSum, typename T, int V>
__global__ void __launch_bounds__(kClusteredThreads) norm_clustered(
    const Pack<T, V>* x, const Pack<T, V>* residual, Parameter weight, Parameter bias, Pack<T, V>* __restrict__ y,
    Pack<T, V>* __restrict__ added, float* __restrict__ means, float* __restrict__ rstds, int packs, int part, float share,
    float eps) {
    constexpr int kWarps = kClusteredThreads / kWarp, kSent = kClusteredBlocks * kWarps;
    extern __shared__ uint4 memory[];
    __shared__ float4 of_warp[kSent];
    __shared__ uint64_t arrived[kClusteredPieces], all_came;
    auto* const tile = reinterpret_cast<Pack<T, V>*>(memory);
    const int thread = int(threadIdx.x), lane = thread % kWarp, rank = sm90::cluster_rank(), row = sm90::cluster_number();
    const int first = rank * part, count = max(min(part, packs - first), 0);
    // A chunk has equally many packs for each thread, so that every thread keeps the same packs throughout.
    constexpr int kOfPieces = kClusteredPieces * kClusteredThreads;
    const int piece = (part + kOfPieces - 1) / kOfPieces * kClusteredThreads;
    if (thread == 0) {
        for (uint64_t& one : arrived) sm90::barrier_init(&one);
        sm90::barrier_init(&all_came);
        sm90::barriers_made();
        sm90::barrier_expect(&all_came, unsigned(sizeof of_warp));
    }
    sm90::cluster_begun();
    if (!kCentred) bias.values = nullptr;
    await_earlier();
    const int64_t begin = int64_t{row} * packs + first;
    if (thread == 0) {
        #pragma unroll
        for (int i = 0; i < kClusteredPieces; ++i) {
            const int from = i * piece;
            const uint32_t bytes = uint32_t(max(min(piece, count - from), 0) * sizeof(*x));
            sm90::barrier_expect(&arrived[i], bytes * (kSum ? 2 : 1));
            if (bytes == 0) continue;
            sm90::bulk_load(tile + from, x + begin + from, bytes, &arrived[i]);
            if (kSum) sm90::bulk_load(tile + part + from, residual + begin + from, bytes, &arrived[i]);
        }
    }
    __syncthreads();  // the barriers are initialised
    y += begin;
    added += begin;
    float pivot = 0.0f, sum = 0.0f, squares = 0.0f, elements = 0.0f;
    #pragma unroll 1
    for (int i = 0; i < kClusteredPieces; ++i) {
        sm90::barrier_wait(&arrived[i], 0);
        const int end = min((i + 1) * piece, count);
        // Takes differences from the mean of the warp's first pack. Cancellation then costs at most as many digits as
        // the element count has.
        if (kCentred && i == 0 && thread < end) {
            Pack<T, V> one = tile[thread];
            if (kSum) one = total(one, tile[part + thread]);
            const Pack<float, V> wide = widened(one);
            #pragma unroll
            for (const float value : wide.v) pivot += value;
        }
        if (kCentred && i == 0) pivot = __shfl_sync(0xffffffff, pivot, 0) * (1.0f / V);
        #pragma unroll 4
        for (int at = i * piece + thread; at < end; at += kClusteredThreads) {
            Pack<T, V> one = tile[at];
            if (kSum) added[at] = tile[at] = one = total(one, tile[part + at]);
            const Pack<float, V> wide = widened(one);
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                const float off = wide.v[k] - pivot;
                if (kCentred) sum += off;
                squares = fmaf(off, off, squares);
            }
            elements += float(V);
        }
    }
    squares = sum_over_lanes<kWarp>(squares);
    float4 found = {0.0f, 0.0f, squares, 0.0f};
    if (kCentred) {
        elements = sum_over_lanes<kWarp>(elements);
        sum = sum_over_lanes<kWarp>(sum);
        const float off = elements == 0.0f ? 0.0f : sum * __fdividef(1.0f, elements);
        found = {elements, pivot + off, squares - sum * off, 0.0f};
    }
    sm90::cluster_wait();  // every block has initialised its barriers
    if (lane < kClusteredBlocks) sm90::send_to_block(&of_warp[rank * kWarps + thread / kWarp], lane, found, &all_came);
    sm90::barrier_wait(&all_came, 0);
    const float about = of_warp[0].y;
    sum = squares = 0.0f;
    #pragma unroll
    for (int i = 0; i < kSent; i += kWarp) {
        const float4 one = of_warp[i + lane];
        const float away = one.y - about, weighed = one.x * away;
        sum += weighed;
        squares += fmaf(weighed, away, one.z);
    }
    if (kCentred) sum = sum_over_lanes<kWarp>(sum);
    squares = sum_over_lanes<kWarp>(squares);
    const float off = sum * share, mean = about + off, rstd = rsqrtf((squares - sum * off) * share + eps);
    const bool in_float32 = sizeof(T) < sizeof(float) && weight.wide;
    for (int top = thread; !in_float32 && top < count; top += kClusteredPacks * kClusteredThreads) {
        Affine<T, V> affine[kClusteredPacks];
        each_pack<kClusteredPacks>(top, kClusteredThreads, count, [&](int u, int at) {
            affine[u].load(weight, bias, first + at);
        });
        each_pack<kClusteredPacks>(top, kClusteredThreads, count, [&](int u, int at) {
            y[at] = affine[u].of(widened(tile[at]), mean, rstd);
        });
    }
    if constexpr (sizeof(T) < sizeof(float)) {
        for (int at = thread; in_float32 && at < count; at += kClusteredThreads) {
            y[at] = of_wide<T>(widened(tile[at]), mean, rstd, weight, bias, first + at);
        }
    }
    if (rstds != nullptr && first == 0 && thread == 0) {
        if (kCentred) means[row] = mean;
        rstds[row] = rstd;
    }
}

template <bool kSum>
int64_t clustered_bytes(int64_t part) { return part * kVectorBytes * (kSum ? 2 : 1); }

inline int64_t clustered_part(int64_t packs) { return (packs + kClusteredBlocks - 1) / kClusteredBlocks; }

template <bool kCentred, bool kSum, typename T, int V>
cudaError_t launch_clustered(const AddRowForward& args) {
    const auto kernel = norm_clustered<kCentred, kSum, T, V>;
    const int64_t packs = args.length / V, part = clustered_part(packs), bytes = clustered_bytes<kSum>(part);
    const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
    if (status != cudaSuccess) return status;
    return launched_as(
        kernel, kClusteredBlocks, unsigned(kClusteredBlocks * args.rows), kClusteredThreads, size_t(bytes), args.stream,
        static_cast<const Pack<T, V>*>(args.x), static_cast<const Pack<T, V>*>(args.residual), weight_of(args),
        bias_of(args), static_cast<Pack<T, V>*>(args.y), static_cast<Pack<T, V>*>(args.added), args.mean, args.rstd,
        int(packs), int(part), 1.0f / float(args.length), float(args.eps));
}

// Returns true if launch_clustered supports these rows of `packs` packs.
template <bool kSum>
bool is_clustered(const AddRowForward& args, int64_t packs) {
    return args.rows <= kMaxGrid / kClusteredBlocks && clustered_bytes<kSum>(clustered_part(packs)) <= kClusteredBytes &&
           has_clusters(args.device);
}

}  // namespace kernelwright
#endif
