// LayerNorm and RMSNorm forward, also of x + residual.
//
// Rows that fit neither in registers nor in the shared memory of a cluster are read twice. First a thread merges the
// moments of small tiles by Chan's formula. The block then sums deviations from the final mean, so that a large common
// offset costs no digits. The second read produces the result. For x + residual each thread rereads the sum that it has
// stored.
#pragma once

#include <type_traits>

#include "moments.cuh"
#include "norm_clustered.cuh"
#include "norm_held.cuh"
#include "norm_shifted.cuh"
#include "norm_staged.cuh"

namespace kernelwright {

constexpr int kTilePacks = 4;  // packs of a row in a thread's registers
constexpr int kWrittenPacks = 2;  // packs loaded together, with their parameters, before any is written
constexpr int kTileThreads = kWarp * kMaxWarps;
constexpr int64_t kSms = 132;  // SMs of a large GPU
constexpr int64_t kFewPacks = kSms * kTileThreads;  // packs of a row; one for each thread, with one block per SM

// Returns the moments of this thread's share of a row, about zero for RMSNorm. Stores x + residual if kSum.
template <bool kCentred, bool kSum, typename T, int V>
__device__ __forceinline__ Moments share_of_row(
    const Pack<T, V>* x, const Pack<T, V>* residual, Pack<T, V>* added, int64_t packs) {
    const int64_t step = blockDim.x;
    Moments all = {0.0f, 0.0f, 0.0f};
    for (int64_t first = threadIdx.x; first < packs; first += kTilePacks * step) {
        Pack<T, V> tile[kTilePacks];
        each_pack<kTilePacks>(first, step, packs, [&](int u, int64_t at) { tile[u] = x[at]; });
        float count = 0.0f, mean = 0.0f, m2 = 0.0f;
        each_pack<kTilePacks>(first, step, packs, [&](int u, int64_t at) {
            if (kSum) {
                tile[u] = total(tile[u], residual[at]);
                added[at] = tile[u];
            }
            const Pack<float, V> wide = widened(tile[u]);
            for (int k = 0; k < V; ++k) mean += wide.v[k];
            count += float(V);
            keep_as_stored(tile[u]);
        });
        mean = kCentred ? mean / count : 0.0f;
        each_pack<kTilePacks>(first, step, packs, [&](int u, int64_t) {
            const Pack<float, V> wide = widened(tile[u]);
            for (int k = 0; k < V; ++k) {
                const float deviation = wide.v[k] - mean;
                m2 += deviation * deviation;
            }
        });
        all = merge(all, {count, mean, m2});
    }
    return all;
}

template <bool kCentred, bool kSum, typename T, int V>
__global__ void __launch_bounds__(kTileThreads) norm_streamed(
    const Pack<T, V>* x, const Pack<T, V>* residual, Parameter weight, Parameter bias,
    Pack<T, V>* __restrict__ y, Pack<T, V>* added, float* __restrict__ means, float* __restrict__ rstds, int64_t packs,
    float share, float eps) {
    await_earlier();
    __shared__ alignas(float4) float of_mean[kMaxWarps], of_rest[kMaxWarps], of_variance[kMaxWarps];
    const int64_t row = blockIdx.x, begin = row * packs;
    if (kSum) {
        residual += begin;
        added += begin;
    }
    x += begin;
    y += begin;
    const Moments mine = share_of_row<kCentred, kSum>(x, residual, added, packs);
    float mean = kCentred ? block_sum(mine.count * mine.mean, of_mean) * share : 0.0f;
    // Corrects the rounding error of the sum under a large offset.
    if (kCentred) mean += block_sum(mine.count * (mine.mean - mean), of_rest) * share;
    const float off = mine.mean - mean;
    const float rstd = rsqrtf(block_sum(mine.m2 + mine.count * off * off, of_variance) * share + eps);
    const bool in_float32 = V > 1 && sizeof(T) < sizeof(float) && weight.wide;
    if (!kCentred) bias.values = nullptr;
    const Pack<T, V>* source = kSum ? added : x;
    const int64_t step = blockDim.x;
    for (int64_t first = threadIdx.x; first < packs; first += kWrittenPacks * step) {
        Pack<T, V> tile[kWrittenPacks];
        Affine<T, V> affine[kWrittenPacks];
        each_pack<kWrittenPacks>(first, step, packs, [&](int u, int64_t at) {
            tile[u] = source[at];
            if (!in_float32) affine[u].load(weight, bias, int(at));
        });
        each_pack<kWrittenPacks>(first, step, packs, [&](int u, int64_t at) {
            const Pack<float, V> wide = widened(tile[u]);
            if constexpr (V > 1 && sizeof(T) < sizeof(float)) {
                if (in_float32) {
                    y[at] = of_wide<T>(wide, mean, rstd, weight, bias, int(at));
                    return;
                }
            }
            y[at] = affine[u].of(wide, mean, rstd);
        });
    }
    if (rstds != nullptr && threadIdx.x == 0) {
        if (kCentred) means[row] = mean;
        rstds[row] = rstd;
    }
}

template <bool kCentred, bool kSum, typename T, int V>
cudaError_t launch_streamed(const AddRowForward& args) {
    return launched(
        norm_streamed<kCentred, kSum, T, V>, unsigned(args.rows), kTileThreads, args.stream,
        static_cast<const Pack<T, V>*>(args.x), static_cast<const Pack<T, V>*>(args.residual),
        weight_of(args), bias_of(args), static_cast<Pack<T, V>*>(args.y), static_cast<Pack<T, V>*>(args.added), args.mean, args.rstd, args.length / V,
        1.0f / float(args.length), float(args.eps));
}

// Returns true if staged rows fill one or two waves of resident blocks, the last one to at least three quarters.
template <typename Stage>
bool fill_waves(int64_t rows) {
    constexpr int64_t kAtOnce = kSms * kStagedBlocks * Stage::kTeams * Stage::kRows;
    const int64_t waves = (rows + kAtOnce - 1) / kAtOnce;
    return waves <= 2 && 4 * rows > (4 * waves - 1) * kAtOnce;
}

// Selects the fastest kernel for the number of packs, from timings on an H200 and an H100.
template <bool kCentred, bool kSum, typename T, int V>
cudaError_t launch_forward(const AddRowForward& args) {
    const int64_t packs = args.length / V;
    const auto* x = static_cast<const Pack<T, V>*>(args.x);
    const auto held = [&](auto hold) {
        auto* added = static_cast<Pack<T, V>*>(args.added);
        if constexpr (kSum) {
            const RowsOfSum<T, V> rows = {x, static_cast<const Pack<T, V>*>(args.residual)};
            return launch_held<decltype(hold), kCentred>(rows, added, args);
        } else {
            return launch_held<decltype(hold), kCentred>(RowsOfOne<T, V>{x}, added, args);
        }
    };
#ifndef KW_PORTABLE_ONLY
    if constexpr (V > 1) {
        const bool lack_blocks = packs >= 2 * kTileThreads && args.rows <= kSms / 4;
        if ((lack_blocks || packs > kTilePacks * kTileThreads) && is_clustered<kSum>(args, packs)) {
            return launch_clustered<kCentred, kSum, T, V>(args);
        }
    }
#endif
    if constexpr (V == 1) {
        if (packs <= 4096) return held(Held<0, 8, 512, kSum && kCentred ? 1 : 2, true>{});
    } else if (sizeof(T) < sizeof(float) && args.param_dtype == kFloat32) {
        // Float32 parameters take twice the registers of 16-bit ones, so few instances exist, and they load parameters
        // late.
        if constexpr (sizeof(T) < sizeof(float)) {
            if (packs <= 32) return held(Held<16, 2, 256, 5, false, true>{});
            if (packs <= 2048) return held(Held<0, 4, 512, 2, false, true>{});
        }
    } else {
        // Spills would cost more than fewer resident blocks or late loads of the parameters.
        constexpr int kBlocksOfTwo = kSum ? 5 : 6;
        constexpr bool kSlimmest = !kCentred && !kSum && sizeof(T) == sizeof(float);
        const int64_t all = args.rows * packs;
        if constexpr (!kCentred && (sizeof(T) < sizeof(float) || !kSum)) {
            constexpr int kEach = sizeof(T) < sizeof(float) ? 1 : 2;
            using Stage = Staged<16, kEach, kSum>;
            if (packs > 8 * kEach && packs <= 16 * kEach && fill_waves<Stage>(args.rows)) {
                return launch_staged<Stage, kCentred, T, V>(args);
            }
        }
        if constexpr (!kCentred && !kSum && sizeof(T) < sizeof(float)) {
            using Stage = Staged<8, 1, kSum>;
            if (packs <= 8 && fill_waves<Stage>(args.rows)) return launch_staged<Stage, kCentred, T, V>(args);
        }
        if (packs <= 8) return held(Held<8, 1, 256, 8, true>{});
        if constexpr (!kCentred && !kSum && sizeof(T) < sizeof(float)) {
            if (packs <= 16) return held(Held<16, 1, 64, 32, true, false, 2>{});
        } else {
            if (packs <= 16) return held(Held<16, 1, 256, 8, true>{});
        }
        if (packs <= 32) return held(Held<16, 2, 256, kSlimmest ? 8 : kBlocksOfTwo, true>{});
        if constexpr (sizeof(T) == sizeof(float)) {
            if (packs <= 48) return held(Held<16, 3, 256, kSum ? 6 : 8>{});
        }
        if constexpr (sizeof(T) == sizeof(float)) {
            if (all <= kFewPacks && packs > 96 && packs <= 192) return held(Held<32, 6, 64, 1, true>{});
        }
        if (all <= kFewPacks && packs <= kTileThreads) return held(Held<0, 1, kTileThreads, 1, true>{});
        if constexpr (kCentred && !kSum && sizeof(T) < sizeof(float)) {
            // More rows than resident warps at one row each (48 per SM), but no more than at two rows each (40 warps
            // per SM).
            if (packs >= 48 && packs <= 64 && args.rows > 48 * kSms && args.rows <= 2 * 40 * kSms) {
                return held(Held<32, 2, 64, 20, false, false, 2>{});
            }
        }
        if (packs <= 64) return held(Held<32, 2, 256, kBlocksOfTwo, true>{});
        if (packs <= 96) return held(Held<32, 3, 128, 12>{});
        if (all <= 2 * kFewPacks && packs > 128 && packs <= 2 * kTileThreads) {
            if constexpr (!kCentred && kSum) {
                if (2 * all > 3 * kFewPacks && packs <= 4 * 256) return held(Held<0, 4, 256, 3, true>{});
            }
            return held(Held<0, 2, kTileThreads, 1, true>{});
        }
        if constexpr (!kSum) {
            if (packs <= 128) return held(Held<32, 4, 128, kCentred ? 12 : 8, !kCentred>{});
            if (packs <= 256) return held(Held<0, 2, 512, kCentred ? 3 : 4, kCentred>{});
        }
        if constexpr (kSum) {
            if (packs <= 1024) return held(Held<0, 2, 512, 3>{});
            if (packs <= 2048) return held(Held<0, 2, kTileThreads, 2>{});
        } else if (packs <= 2048) {
            return held(Held<0, 4, 512, kSlimmest ? 4 : 3>{});
        }
        if (packs <= kTilePacks * kTileThreads) return held(Held<0, kTilePacks, kTileThreads, 1>{});
    }
    return launch_streamed<kCentred, kSum, T, V>(args);
}

template <bool kCentred, bool kSum>
cudaError_t norm_forward(const AddRowForward& args) {
    if (args.rows > kMaxGrid) return cudaErrorInvalidValue;
    return with_elements(args.dtype, args.param_dtype, [&](auto element) {
        using T = decltype(element);
        if (in_vectors<T>(args.length, args.x, args.residual, args.y, args.added, args.weight, args.bias)) {
            return launch_forward<kCentred, kSum, T, kVector<T>>(args);
        }
        if (is_shifted<T>(args)) return launch_shifted<kCentred, kSum, T>(args);
        return launch_forward<kCentred, kSum, T, 1>(args);
    });
}

template <bool kCentred>
cudaError_t row_forward(const RowForward& args) {
    return norm_forward<kCentred, false>(
        {args.x, nullptr, args.weight, args.bias, args.y, nullptr, args.mean, args.rstd, args.rows, args.length,
         args.dtype, args.param_dtype, args.eps, args.stream, args.device});
}

template <bool kCentred>
cudaError_t add_row_forward(const AddRowForward& args) {
    return norm_forward<kCentred, true>(args);
}

}  // namespace kernelwright
