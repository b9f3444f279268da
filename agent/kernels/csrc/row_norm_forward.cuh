// LayerNorm and RMSNorm, forward: a block takes a row.
//
// Where its threads' registers hold the row it is read once, and the variance is that of the deviations from the
// finished mean. A longer row is read twice: moments of small tiles merged by Chan's formula, so that a large
// common offset costs no digits, then the result.
#pragma once

#include <type_traits>

#include "row_norm.cuh"

namespace kernelwright {

constexpr int kTilePacks = 4;  // of a row, in one thread's registers
constexpr int kTileThreads = kWarp * kMaxWarps;
// Of float32, half of that in a thread: of 32 registers each, an SM holds as many threads as it can.
constexpr int kFloatPacks = 2;
constexpr int kFloatThreads = 512;
constexpr int kFloatBlocks = 4;
// Of 16-bit elements: 40 registers where the compiler keeps them as they are stored, as it does with float16 alone.
constexpr int kHalfThreads = 256;
template <typename T>
constexpr int kHalfBlocks = std::is_same_v<T, __half> ? 6 : 4;

// Of rows that fewer lanes than a warp's hold.
constexpr int kShortThreads = 256;

// Over kTeam neighbouring lanes, in each of them; all lanes of the warp call it.
template <int kTeam>
__device__ __forceinline__ float team_sum(float mine) {
    #pragma unroll
    for (int offset = kTeam / 2; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffff, mine, offset);
    return mine;
}

struct Moments {
    float count;
    float mean;
    float m2;  // sum of squared deviations from the mean
};

// Chan, Golub, LeVeque: "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
__device__ __forceinline__ Moments merge(Moments a, Moments b) {
    const float count = a.count + b.count;
    if (count == 0.0f) return a;
    const float share = b.count / count;
    const float delta = b.mean - a.mean;
    return {count, a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.count * share};
}

__device__ __forceinline__ Moments warp_merge(Moments mine) {
    #pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        Moments other;
        other.count = __shfl_xor_sync(0xffffffff, mine.count, offset);
        other.mean = __shfl_xor_sync(0xffffffff, mine.mean, offset);
        other.m2 = __shfl_xor_sync(0xffffffff, mine.m2, offset);
        mine = merge(mine, other);
    }
    return mine;
}

__device__ __forceinline__ Moments block_merge(Moments mine, Moments* of_warp) {
    mine = warp_merge(mine);
    const int warps = int(blockDim.x) / kWarp;
    if (warps == 1) return mine;
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
    __syncthreads();
    const int lane = int(threadIdx.x) % kWarp;
    return warp_merge(lane < warps ? of_warp[lane] : Moments{0.0f, 0.0f, 0.0f});
}

template <typename T, typename P, int V>
__device__ __forceinline__ Pack<T, V> affine(
    Pack<T, V> pack, const Pack<P, V>* weight, const Pack<P, V>* bias, int64_t at, float mean, float rstd) {
    Pack<P, V> scale, shift;
    if (weight != nullptr) scale = weight[at];
    if (bias != nullptr) shift = bias[at];
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        float value = (to_float(pack.v[k]) - mean) * rstd;
        if (weight != nullptr) value *= to_float(scale.v[k]);
        if (bias != nullptr) value += to_float(shift.v[k]);
        pack.v[k] = from_float<T>(value);
    }
    return pack;
}

// The row is held in registers. The parameters are asked for pack by pack at the end: asked for before, they take the
// registers that more rows need.
template <bool kCentred, typename T, typename P, int V, int kPacks, int kThreads, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks) row_norm_resident(
    const Pack<T, V>* __restrict__ x, const Pack<P, V>* __restrict__ weight, const Pack<P, V>* __restrict__ bias,
    Pack<T, V>* __restrict__ y, float* __restrict__ means, float* __restrict__ rstds, int64_t rows, int packs,
    float eps) {
    __shared__ float of_mean[kMaxWarps], of_variance[kMaxWarps];
    const int64_t row = row_here();
    if (row >= rows) return;
    x += row * packs;
    y += row * packs;
    Pack<T, V> tile[kPacks];
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        const int at = int(threadIdx.x) + u * int(blockDim.x);
        if (at < packs) tile[u] = x[at];
    }
    const float count = float(packs * V);
    float mean = 0.0f;
    if (kCentred) {
        float sum = 0.0f;
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            if (int(threadIdx.x) + u * int(blockDim.x) < packs) {
                for (int k = 0; k < V; ++k) sum += to_float(tile[u].v[k]);
            }
        }
        mean = block_reduce<Sum>(sum, of_mean) / count;
    }
    float squares = 0.0f;
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        if (int(threadIdx.x) + u * int(blockDim.x) < packs) {
            for (int k = 0; k < V; ++k) {
                const float deviation = to_float(tile[u].v[k]) - mean;
                squares += deviation * deviation;
            }
        }
    }
    const float rstd = 1.0f / sqrtf(block_reduce<Sum>(squares, of_variance) / count + eps);
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        const int at = int(threadIdx.x) + u * int(blockDim.x);
        if (at < packs) y[at] = affine(tile[u], weight, bias, at, mean, rstd);
    }
    if (rstds != nullptr && threadIdx.x == 0) {
        if (kCentred) means[row] = mean;
        rstds[row] = rstd;
    }
}

// Of short rows kTeam lanes of a warp hold one, a pack each, so that most lanes have something to do.
template <int kTeam>
struct ShortRow {
    int64_t row;
    int at;      // the lane's pack
    bool mine;   // whether there is one

    __device__ __forceinline__ ShortRow(int64_t rows, int packs)
        : row(int64_t{blockIdx.x} * (kShortThreads / kTeam) + threadIdx.x / kTeam),
          at(int(threadIdx.x) % kTeam),
          mine(row < rows && at < packs) {}
};

// The result for a row whose packs its lanes have; all lanes of the warp call it.
template <bool kCentred, typename T, typename P, int V, int kTeam>
__device__ __forceinline__ void norm_short(
    const ShortRow<kTeam>& here, const Pack<T, V>& pack, const Pack<P, V>* weight, const Pack<P, V>* bias,
    Pack<T, V>* y, float* means, float* rstds, int packs, float eps) {
    const float count = float(packs * V);
    float mean = 0.0f;
    if (kCentred) {
        float sum = 0.0f;
        for (int k = 0; k < V; ++k) sum += here.mine ? to_float(pack.v[k]) : 0.0f;
        mean = team_sum<kTeam>(sum) / count;
    }
    float squares = 0.0f;
    for (int k = 0; k < V; ++k) {
        const float deviation = here.mine ? to_float(pack.v[k]) - mean : 0.0f;
        squares += deviation * deviation;
    }
    const float rstd = 1.0f / sqrtf(team_sum<kTeam>(squares) / count + eps);
    if (!here.mine) return;
    y[here.row * packs + here.at] = affine(pack, weight, bias, here.at, mean, rstd);
    if (rstds != nullptr && here.at == 0) {
        if (kCentred) means[here.row] = mean;
        rstds[here.row] = rstd;
    }
}

template <bool kCentred, typename T, typename P, int V, int kTeam>
__global__ void __launch_bounds__(kShortThreads) row_norm_short(
    const Pack<T, V>* __restrict__ x, const Pack<P, V>* __restrict__ weight, const Pack<P, V>* __restrict__ bias,
    Pack<T, V>* __restrict__ y, float* __restrict__ means, float* __restrict__ rstds, int64_t rows, int packs,
    float eps) {
    const ShortRow<kTeam> here(rows, packs);
    Pack<T, V> pack;
    if (here.mine) pack = x[here.row * packs + here.at];
    norm_short<kCentred, T, P, V, kTeam>(here, pack, weight, bias, y, means, rstds, packs, eps);
}

// Moments of this thread's share of a row; for RMSNorm about zero.
template <bool kCentred, typename T, int V>
__device__ __forceinline__ Moments share_of_row(const Pack<T, V>* row, int64_t packs) {
    Moments total = {0.0f, 0.0f, 0.0f};
    for (int64_t i = threadIdx.x; i < packs; i += kTilePacks * int64_t(blockDim.x)) {
        Pack<T, V> tile[kTilePacks];
        int loaded = 0;
        #pragma unroll
        for (int u = 0; u < kTilePacks; ++u) {
            const int64_t at = i + u * int64_t(blockDim.x);
            if (at < packs) {
                tile[u] = row[at];
                ++loaded;
            }
        }
        const float count = float(loaded * V);
        float mean = 0.0f;
        if (kCentred) {
            #pragma unroll
            for (int u = 0; u < kTilePacks; ++u) {
                if (u < loaded) {
                    for (int k = 0; k < V; ++k) mean += to_float(tile[u].v[k]);
                }
            }
            mean /= count;
        }
        float m2 = 0.0f;
        #pragma unroll
        for (int u = 0; u < kTilePacks; ++u) {
            if (u < loaded) {
                for (int k = 0; k < V; ++k) {
                    const float deviation = to_float(tile[u].v[k]) - mean;
                    m2 += deviation * deviation;
                }
            }
        }
        total = merge(total, {count, mean, m2});
    }
    return total;
}

// The row is longer than the registers of a block.
template <bool kCentred, typename T, typename P, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) row_norm_streamed(
    const Pack<T, V>* __restrict__ x, const Pack<P, V>* __restrict__ weight, const Pack<P, V>* __restrict__ bias,
    Pack<T, V>* __restrict__ y, float* __restrict__ means, float* __restrict__ rstds, int64_t packs, float eps) {
    __shared__ Moments of_warp[kMaxWarps];
    const int64_t row = blockIdx.x;
    const Moments all = block_merge(share_of_row<kCentred>(x + row * packs, packs), of_warp);
    const float rstd = 1.0f / sqrtf(all.m2 / all.count + eps);
    for (int64_t at = threadIdx.x; at < packs; at += blockDim.x) {
        y[row * packs + at] = affine(x[row * packs + at], weight, bias, at, all.mean, rstd);
    }
    if (rstds != nullptr && threadIdx.x == 0) {
        if (kCentred) means[row] = all.mean;
        rstds[row] = rstd;
    }
}

template <bool kCentred, typename T, typename P, int V, int kPacks, int kThreads, int kBlocks>
void launch_resident(const RowForward& args) {
    const int64_t packs = args.length / V;
    const dim3 block = rows_block(block_for(packs, kPacks));
    row_norm_resident<kCentred, T, P, V, kPacks, kThreads, kBlocks>
        <<<rows_grid(args.rows, block), block, 0, args.stream>>>(
            static_cast<const Pack<T, V>*>(args.x), static_cast<const Pack<P, V>*>(args.weight),
            static_cast<const Pack<P, V>*>(args.bias), static_cast<Pack<T, V>*>(args.y), args.mean, args.rstd,
            args.rows, int(packs), float(args.eps));
}

template <int kTeam>
unsigned short_grid(int64_t rows) {
    return unsigned((rows + kShortThreads / kTeam - 1) / (kShortThreads / kTeam));
}

template <bool kCentred, typename T, typename P, int V, int kTeam>
cudaError_t launch_short(const RowForward& args) {
    row_norm_short<kCentred, T, P, V, kTeam><<<short_grid<kTeam>(args.rows), kShortThreads, 0, args.stream>>>(
        static_cast<const Pack<T, V>*>(args.x), static_cast<const Pack<P, V>*>(args.weight),
        static_cast<const Pack<P, V>*>(args.bias), static_cast<Pack<T, V>*>(args.y), args.mean, args.rstd, args.rows,
        int(args.length / V), float(args.eps));
    return cudaGetLastError();
}

template <bool kCentred, typename T, typename P, int V>
cudaError_t launch_forward(const RowForward& args) {
    const int64_t packs = args.length / V;
    if constexpr (V > 1) {
        if (packs <= 8) return launch_short<kCentred, T, P, V, 8>(args);
        if (packs <= 16) return launch_short<kCentred, T, P, V, 16>(args);
    }
    if (packs > kTilePacks * kTileThreads) {
        row_norm_streamed<kCentred, T, P, V><<<unsigned(args.rows), kTileThreads, 0, args.stream>>>(
            static_cast<const Pack<T, V>*>(args.x), static_cast<const Pack<P, V>*>(args.weight),
            static_cast<const Pack<P, V>*>(args.bias), static_cast<Pack<T, V>*>(args.y), args.mean, args.rstd, packs,
            float(args.eps));
        return cudaGetLastError();
    }
    if constexpr (sizeof(Pack<T, V>) == kVectorBytes && sizeof(T) == sizeof(float)) {
        if (packs <= kFloatPacks * kFloatThreads) {
            launch_resident<kCentred, T, P, V, kFloatPacks, kFloatThreads, kFloatBlocks>(args);
            return cudaGetLastError();
        }
    }
    if constexpr (sizeof(Pack<T, V>) == kVectorBytes && sizeof(T) < sizeof(float)) {
        if (packs <= kTilePacks * kHalfThreads) {
            launch_resident<kCentred, T, P, V, kTilePacks, kHalfThreads, kHalfBlocks<T>>(args);
            return cudaGetLastError();
        }
    }
    launch_resident<kCentred, T, P, V, kTilePacks, kTileThreads, 1>(args);
    return cudaGetLastError();
}

template <bool kCentred>
cudaError_t row_forward(const RowForward& args) {
    if (args.rows > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtypes(args.dtype, args.param_dtype, [&](auto element, auto parameter) {
        using T = decltype(element);
        using P = decltype(parameter);
        if (in_vectors<T, P>(args.length, args.x, args.y, nullptr, args.weight, args.bias)) {
            return launch_forward<kCentred, T, P, kVector<T>>(args);
        }
        return launch_forward<kCentred, T, P, 1>(args);
    });
}

}  // namespace kernelwright
