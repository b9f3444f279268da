// LayerNorm and RMSNorm of a sum, forward: a block takes a row, and reads both summands once.
//
// Where its threads' registers hold the sum, the variance is that of the deviations from the finished mean. Of a longer
// row the moments of small tiles are merged by Chan's formula, and each thread reads again what it stored of the sum.
#pragma once

#include "add_norm.cuh"
#include "row_norm_forward.cuh"

namespace kernelwright {

// Of kFloatThreads on an SM: two rows on their way need more registers than one, and halves become floats.
template <typename T>
constexpr int kAddBlocks = sizeof(T) == sizeof(float) ? 3 : 2;

template <int V>
__device__ __forceinline__ Moments moments(const Pack<float, V>& values) {
    float mean = 0.0f, m2 = 0.0f;
    #pragma unroll
    for (int k = 0; k < V; ++k) mean += values.v[k];
    mean /= float(V);
    #pragma unroll
    for (int k = 0; k < V; ++k) m2 += (values.v[k] - mean) * (values.v[k] - mean);
    return {float(V), mean, m2};
}

template <bool kCentred, typename T, typename P, int V, int kPacks, int kThreads, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks) add_norm_resident(
    const Pack<T, V>* __restrict__ x, const Pack<T, V>* __restrict__ residual, const Pack<P, V>* __restrict__ weight,
    const Pack<P, V>* __restrict__ bias, Pack<T, V>* __restrict__ y, Pack<T, V>* __restrict__ added,
    float* __restrict__ means, float* __restrict__ rstds, int64_t rows, int packs, float eps) {
    __shared__ float of_mean[kMaxWarps], of_variance[kMaxWarps];
    const int64_t row = row_here();
    if (row >= rows) return;
    const int64_t begin = row * packs;
    const int first = int(threadIdx.x), step = int(blockDim.x);
    Pack<T, V> tile[kPacks];
    each_pack<kPacks>(first, step, packs, [&](int u, int64_t at) { tile[u] = x[begin + at]; });
    float sum = 0.0f;
    each_pack<kPacks>(first, step, packs, [&](int u, int64_t at) {
        tile[u] = total(tile[u], residual[begin + at]);
        added[begin + at] = tile[u];
        for (int k = 0; k < V; ++k) sum += to_float(tile[u].v[k]);
    });
    const float count = float(packs * V);
    const float mean = kCentred ? block_reduce<Sum>(sum, of_mean) / count : 0.0f;
    float squares = 0.0f;
    each_pack<kPacks>(first, step, packs, [&](int u, int64_t) {
        for (int k = 0; k < V; ++k) {
            const float deviation = to_float(tile[u].v[k]) - mean;
            squares += deviation * deviation;
        }
    });
    const float rstd = 1.0f / sqrtf(block_reduce<Sum>(squares, of_variance) / count + eps);
    each_pack<kPacks>(first, step, packs, [&](int u, int64_t at) {
        y[begin + at] = affine(tile[u], weight, bias, at, mean, rstd);
    });
    if (rstds != nullptr && threadIdx.x == 0) {
        if (kCentred) means[row] = mean;
        rstds[row] = rstd;
    }
}

template <bool kCentred, typename T, typename P, int V, int kTeam>
__global__ void __launch_bounds__(kShortThreads) add_norm_short(
    const Pack<T, V>* __restrict__ x, const Pack<T, V>* __restrict__ residual, const Pack<P, V>* __restrict__ weight,
    const Pack<P, V>* __restrict__ bias, Pack<T, V>* __restrict__ y, Pack<T, V>* __restrict__ added,
    float* __restrict__ means, float* __restrict__ rstds, int64_t rows, int packs, float eps) {
    const ShortRow<kTeam> here(rows, packs);
    const int64_t at = here.row * packs + here.at;
    Pack<T, V> sum;
    if (here.mine) {
        sum = total(x[at], residual[at]);
        added[at] = sum;
    }
    norm_short<kCentred, T, P, V, kTeam>(here, sum, weight, bias, y, means, rstds, packs, eps);
}

// The row is longer than the registers of a block.
template <bool kCentred, typename T, typename P, int V>
__global__ void __launch_bounds__(kTileThreads) add_norm_streamed(
    const Pack<T, V>* __restrict__ x, const Pack<T, V>* __restrict__ residual, const Pack<P, V>* __restrict__ weight,
    const Pack<P, V>* __restrict__ bias, Pack<T, V>* __restrict__ y, Pack<T, V>* added, float* __restrict__ means,
    float* __restrict__ rstds, int64_t packs, float eps) {
    __shared__ Moments of_warp[kMaxWarps];
    const int64_t begin = int64_t{blockIdx.x} * packs;
    const int64_t step = blockDim.x;
    Moments mine = {0.0f, 0.0f, 0.0f};
    for (int64_t first = threadIdx.x; first < packs; first += kTilePacks * step) {
        Pack<T, V> tile[kTilePacks];
        each_pack<kTilePacks>(first, step, packs, [&](int u, int64_t at) { tile[u] = x[begin + at]; });
        each_pack<kTilePacks>(first, step, packs, [&](int u, int64_t at) {
            tile[u] = total(tile[u], residual[begin + at]);
            added[begin + at] = tile[u];
            Pack<float, V> wide;
            float squares = 0.0f;
            for (int k = 0; k < V; ++k) {
                wide.v[k] = to_float(tile[u].v[k]);
                squares += wide.v[k] * wide.v[k];
            }
            mine = merge(mine, kCentred ? moments(wide) : Moments{float(V), 0.0f, squares});
        });
    }
    const Moments all = block_merge(mine, of_warp);
    const float rstd = 1.0f / sqrtf(all.m2 / all.count + eps);
    for (int64_t at = threadIdx.x; at < packs; at += step) {
        y[begin + at] = affine(added[begin + at], weight, bias, at, all.mean, rstd);
    }
    if (rstds != nullptr && threadIdx.x == 0) {
        if (kCentred) means[blockIdx.x] = all.mean;
        rstds[blockIdx.x] = rstd;
    }
}

template <bool kCentred, typename T, typename P, int V, int kPacks, int kThreads, int kBlocks>
cudaError_t launch_add_resident(const AddRowForward& args) {
    const int64_t packs = args.length / V;
    const dim3 block = rows_block(block_for(packs, kPacks));
    add_norm_resident<kCentred, T, P, V, kPacks, kThreads, kBlocks>
        <<<rows_grid(args.rows, block), block, 0, args.stream>>>(
            static_cast<const Pack<T, V>*>(args.x), static_cast<const Pack<T, V>*>(args.residual),
            static_cast<const Pack<P, V>*>(args.weight), static_cast<const Pack<P, V>*>(args.bias),
            static_cast<Pack<T, V>*>(args.y), static_cast<Pack<T, V>*>(args.added), args.mean, args.rstd, args.rows,
            int(packs), float(args.eps));
    return cudaGetLastError();
}

template <bool kCentred, typename T, typename P, int V, int kTeam>
cudaError_t launch_add_short(const AddRowForward& args) {
    add_norm_short<kCentred, T, P, V, kTeam><<<short_grid<kTeam>(args.rows), kShortThreads, 0, args.stream>>>(
        static_cast<const Pack<T, V>*>(args.x), static_cast<const Pack<T, V>*>(args.residual),
        static_cast<const Pack<P, V>*>(args.weight), static_cast<const Pack<P, V>*>(args.bias),
        static_cast<Pack<T, V>*>(args.y), static_cast<Pack<T, V>*>(args.added), args.mean, args.rstd, args.rows,
        int(args.length / V), float(args.eps));
    return cudaGetLastError();
}

template <bool kCentred, typename T, typename P, int V>
cudaError_t launch_add_forward(const AddRowForward& args) {
    const int64_t packs = args.length / V;
    if constexpr (V > 1) {
        if (packs <= 8) return launch_add_short<kCentred, T, P, V, 8>(args);
        if (packs <= 16) return launch_add_short<kCentred, T, P, V, 16>(args);
    }
    if (packs > kTilePacks * kTileThreads) {
        add_norm_streamed<kCentred, T, P, V><<<unsigned(args.rows), kTileThreads, 0, args.stream>>>(
            static_cast<const Pack<T, V>*>(args.x), static_cast<const Pack<T, V>*>(args.residual),
            static_cast<const Pack<P, V>*>(args.weight), static_cast<const Pack<P, V>*>(args.bias),
            static_cast<Pack<T, V>*>(args.y), static_cast<Pack<T, V>*>(args.added), args.mean, args.rstd, packs,
            float(args.eps));
        return cudaGetLastError();
    }
    if constexpr (V == kVector<T>) {
        if (packs <= kFloatPacks * kFloatThreads) {
            return launch_add_resident<kCentred, T, P, V, kFloatPacks, kFloatThreads, kAddBlocks<T>>(args);
        }
    }
    return launch_add_resident<kCentred, T, P, V, kTilePacks, kTileThreads, 1>(args);
}

template <bool kCentred>
cudaError_t add_row_forward(const AddRowForward& args) {
    if (args.rows > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtypes(args.dtype, args.param_dtype, [&](auto element, auto parameter) {
        using T = decltype(element);
        using P = decltype(parameter);
        const bool vectors = in_vectors<T, P>(args.length, args.x, args.residual, args.y, args.weight, args.bias);
        if (vectors && aligned(args.added)) return launch_add_forward<kCentred, T, P, kVector<T>>(args);
        return launch_add_forward<kCentred, T, P, 1>(args);
    });
}

}  // namespace kernelwright
