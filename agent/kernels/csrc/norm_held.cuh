// LayerNorm and RMSNorm forward for rows that fit in registers, also of x + residual.
//
// The input is read once, and the variance uses the deviations from the final mean. A team of lanes of a warp handles a
// short row, a block a longer one.
#pragma once

#include "add_norm.cuh"
#include "launched.cuh"
#include "norm_sums.cuh"

namespace kernelwright {

// Distribution of a row. kTeam neighbouring lanes of a warp hold it, or a block if kTeam is 0, with up to kPacks packs
// per thread. A team of lanes handles kRows rows at once. kBlocks blocks of kThreads must fit on an SM, which bounds
// the registers. kEarly: loads the parameters together with the row. That costs registers, but hides their latency
// where rows are few or short. kWide: float32 parameters beside 16-bit elements, loaded late.
template <int kTeam_, int kPacks_, int kThreads_, int kBlocks_, bool kEarly_ = false, bool kWide_ = false, int kRows_ = 1>
struct Held {
    static constexpr int kTeam = kTeam_, kPacks = kPacks_, kThreads = kThreads_, kBlocks = kBlocks_, kRows = kRows_;
    static constexpr bool kEarly = kEarly_, kWide = kWide_;
    static constexpr int kTeams = kThreads / (kTeam == 0 ? kThreads : kTeam);  // teams per block
    // True for a grid of one or two blocks per SM.
    static constexpr bool kFew = kTeam == 0 && kPacks <= 2 && kBlocks == 1;

    __device__ __forceinline__ static unsigned team() { return kTeam == 0 ? 0 : threadIdx.x / (kThreads / kTeams); }
    __device__ __forceinline__ static unsigned step() { return kTeam == 0 ? blockDim.x : kTeam; }

    // Sums over the threads of a row; each of them gets the result. All lanes of a warp must call it.
    __device__ __forceinline__ static float sum(float mine, float* of_warp) {
        if constexpr (kTeam == 0) return block_sum(mine, of_warp);
        else return sum_over_lanes<kTeam>(mine);
    }
};

// weight[at] and bias[at], or 1 and 0 if there are none. With V == 1 the parameters may be float32 beside 16-bit
// elements, as this takes no more registers.
template <typename T, int V>
struct Affine {
    using Stored = std::conditional_t<V == 1, float, T>;
    Pack<Stored, V> scale, shift;

    // Loads parameters stored as P. P is T unless V is 1.
    template <typename P>
    __device__ __forceinline__ void load(const void* weight, const void* bias, int at) {
        scale = filled<Stored, V>(1.0f);
        shift = filled<Stored, V>(0.0f);
        if constexpr (V == 1) {
            if (weight != nullptr) scale = parameter_pack<P, V>(weight, at);
            if (bias != nullptr) shift = parameter_pack<P, V>(bias, at);
        } else {
            if (weight != nullptr) scale = static_cast<const Pack<T, V>*>(weight)[at];
            if (bias != nullptr) shift = static_cast<const Pack<T, V>*>(bias)[at];
        }
    }

    // Loads parameters of either storage type.
    __device__ __forceinline__ void load(Parameter weight, Parameter bias, int at) {
        if constexpr (V > 1) load<T>(weight.values, bias.values, at);
        else with_parameters<T>(weight.wide, [&](auto p) { load<decltype(p)>(weight.values, bias.values, at); });
    }

    __device__ __forceinline__ Pack<T, V> of(Pack<float, V> wide, float mean, float rstd) const {
        const Pack<float, V> scales = widened(scale), shifts = widened(shift);
        #pragma unroll
        for (int k = 0; k < V; ++k) wide.v[k] = fmaf((wide.v[k] - mean) * rstd, scales.v[k], shifts.v[k]);
        return narrowed<T>(wide);
    }
};

// Loads a pack of float32 parameters beside 16-bit elements, four at a time, since they take twice the registers.
template <typename T, int V>
__device__ __forceinline__ Pack<T, V> of_wide(
    Pack<float, V> wide, float mean, float rstd, Parameter weight, Parameter bias, int at) {
    constexpr int kEach = kVector<float>;
    #pragma unroll
    for (int k = 0; k < V; k += kEach) {
        Affine<float, kEach> affine;
        affine.load(weight, bias, at * (V / kEach) + k / kEach);
        Pack<float, kEach> some;
        memcpy(&some, &wide.v[k], sizeof some);
        some = affine.of(some, mean, rstd);
        memcpy(&wide.v[k], &some, sizeof some);
    }
    return narrowed<T>(wide);
}

// Source of the rows, here the rows of one tensor x. `of` locates a row, `first` and `second` load the packs that
// `made` combines to one pack of the row. kSum: the combination is an output too. kLooksUp: the row's address is read
// from memory.
template <typename T, int V>
struct RowsOfOne {
    using Parts = const Pack<T, V>*;
    static constexpr bool kSum = false, kLooksUp = false;
    const Pack<T, V>* x;

    __device__ __forceinline__ Parts of(unsigned row, int packs) const { return x + int64_t{row} * packs; }
    __device__ __forceinline__ Pack<T, V> first(Parts from, int at) const { return from[at]; }
    __device__ __forceinline__ Pack<T, V> second(Parts, int) const { return {}; }
    __device__ __forceinline__ Pack<T, V> made(Parts, Pack<T, V> one, Pack<T, V>) const { return one; }
};

template <typename T, int V>
struct RowsOfSum {
    struct Parts {
        const Pack<T, V>* x;
        const Pack<T, V>* residual;
    };
    static constexpr bool kSum = true, kLooksUp = false;
    const Pack<T, V>* x;
    const Pack<T, V>* residual;

    __device__ __forceinline__ Parts of(unsigned row, int packs) const {
        const int64_t begin = int64_t{row} * packs;
        return {x + begin, residual + begin};
    }
    __device__ __forceinline__ Pack<T, V> first(Parts from, int at) const { return from.x[at]; }
    __device__ __forceinline__ Pack<T, V> second(Parts from, int at) const { return from.residual[at]; }
    __device__ __forceinline__ Pack<T, V> made(Parts, Pack<T, V> a, Pack<T, V> b) const { return total(a, b); }
};

// Computes LayerNorm, or RMSNorm without kCentred, which has no bias. `added` is null unless Source::kSum.
template <typename Hold, bool kCentred, typename Source, typename T, int V>
__global__ void __launch_bounds__(Hold::kThreads, Hold::kBlocks) norm_held(
    const Source source, Parameter weight, Parameter bias, Pack<T, V>* __restrict__ y, Pack<T, V>* __restrict__ added,
    float* __restrict__ means, float* __restrict__ rstds, unsigned rows, int packs, float share, float eps) {
    await_earlier();
    // Lets the norm's own backward prefetch its first rows while the last rows of this kernel are in flight. Not for V
    // == 1, whose blocks are too small, nor for many long float32 rows, which became slower (docs/log.md).
    if (V > 1 && (Hold::kFew || Hold::kTeam > 0 || sizeof(T) < sizeof(float))) let_next_begin();
    // One pack stays as floats, and so do two if rows are few. More packs stay in their storage type: half the
    // registers.
    constexpr int kPacks = Hold::kPacks, kRows = Hold::kRows;
    using Kept = std::conditional_t<kPacks * kRows == 1 || Hold::kFew, float, T>;
    // Computes mean and deviations behind one barrier, where that is faster and registers allow it: for few rows, for
    // rows whose addresses are looked up, and for four packs of 16-bit elements.
    constexpr bool kLong = kPacks == 4 && !Hold::kEarly && !Hold::kWide && sizeof(T) < sizeof(float);
    constexpr bool kMoments =
        kCentred && V > 1 && Hold::kTeam == 0 && (Hold::kFew || kLong || (kPacks == 1 && Source::kLooksUp));
    __shared__ alignas(float4) float of_mean[kMaxWarps], of_variance[kMaxWarps];
    __shared__ float4 of_warp[kMoments ? kMaxWarps : 1];
    // First row of the team. The number fits 32 bits: rows are fewer than 2^31, and a block adds a few.
    const unsigned row = (blockIdx.x * Hold::kTeams + Hold::team()) * kRows;
    const int step = int(Hold::step()), first = int(threadIdx.x - Hold::team() * Hold::step());
    const int64_t begin = int64_t{row} * packs;
    const auto is_there = [&](int r) { return Hold::kTeam == 0 || row + r < rows; };
    // Calls f(i, r, at) for each pack of the thread: its number, its row, its place in the row. Teams without a row
    // also take part in the sums, which involve all lanes of a warp.
    const auto each = [&](auto f) {
        #pragma unroll
        for (int i = 0; i < kRows * kPacks; ++i) {
            const int at = first + i % kPacks * step;
            if (at < packs && is_there(i / kPacks)) f(i, i / kPacks, at);
        }
    };
    if (!kCentred) bias.values = nullptr;
    y += begin;
    added += begin;
    Affine<T, V> affine[kPacks];
    const auto load = [&](auto parameter) {
        each_pack<kPacks>(first, step, packs, [&](int u, int at) {
            affine[u].template load<decltype(parameter)>(weight.values, bias.values, at);
        });
    };
    typename Source::Parts from[kRows];
    #pragma unroll
    for (int r = 0; r < kRows; ++r) from[r] = source.of(is_there(r) ? row + r : 0, packs);
    if constexpr (Source::kLooksUp && Hold::kEarly && V > 1) load(T{});
    Pack<T, V> tile[kRows * kPacks], other[kRows * kPacks];
    each([&](int i, int r, int at) {
        tile[i] = source.first(from[r], at);
        other[i] = source.second(from[r], at);
    });
    if constexpr (!Source::kLooksUp && Hold::kEarly && V > 1) load(T{});
    else if constexpr (Hold::kEarly && V == 1) with_parameters<T>(weight.wide, load);
    Pack<Kept, V> kept[kRows * kPacks];
    float sum[kRows] = {}, squares[kRows] = {}, mean[kRows] = {}, rstd[kRows], pivot = 0.0f;
    each([&](int i, int r, int at) {
        tile[i] = source.made(from[r], tile[i], other[i]);
        if (Source::kSum) added[r * packs + at] = tile[i];
        const Pack<float, V> wide = widened(tile[i]);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            if (kMoments) pivot += i == 0 || sizeof(T) == sizeof(float) ? wide.v[k] : 0.0f;
            else if (kCentred) sum[r] += wide.v[k];
            else squares[r] = fmaf(wide.v[k], wide.v[k], squares[r]);
        }
        if constexpr (std::is_same_v<Kept, float>) {
            kept[i] = wide;
        } else {
            kept[i] = tile[i];
            keep_as_stored(kept[i]);
        }
    });
    if constexpr (kMoments) {
        int count = 0;
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) count += min(max(packs - u * step - first / kWarp * kWarp, 0), kWarp) * V;
        pivot = pivot_of_warp<T, V>(pivot, count);
        each([&](int i, int, int) {
            const Pack<float, V> wide = widened(kept[i]);
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                const float off = wide.v[k] - pivot;
                sum[0] += off;
                squares[0] = fmaf(off, off, squares[0]);
            }
            keep_as_stored(kept[i]);
        });
        const Moments of_row = block_moments(sum[0], squares[0], pivot, count, share, of_warp);
        mean[0] = of_row.mean;
        squares[0] = of_row.m2;
    } else if constexpr (kCentred) {
        #pragma unroll
        for (int r = 0; r < kRows; ++r) mean[r] = Hold::sum(sum[r], of_mean) * share;
        each([&](int i, int r, int) {
            const Pack<float, V> wide = widened(kept[i]);
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                const float deviation = wide.v[k] - mean[r];
                squares[r] = fmaf(deviation, deviation, squares[r]);
            }
            keep_as_stored(kept[i]);
        });
    }
    #pragma unroll
    for (int r = 0; r < kRows; ++r) {
        if (!kMoments) squares[r] = Hold::sum(squares[r], of_variance);
        rstd[r] = rsqrtf(squares[r] * share + eps);
    }
    each([&](int i, int r, int at) {
        const int u = i % kPacks;
        if constexpr (Hold::kWide) {
            y[r * packs + at] = of_wide<T>(widened(kept[i]), mean[r], rstd[r], weight, bias, at);
        } else {
            if (!Hold::kEarly && r == 0) affine[u].load(weight, bias, at);
            y[r * packs + at] = affine[u].of(widened(kept[i]), mean[r], rstd[r]);
        }
    });
    if (rstds == nullptr || first != 0) return;
    #pragma unroll
    for (int r = 0; r < kRows; ++r) {
        if (!is_there(r)) break;
        if (kCentred) means[row + r] = mean[r];
        rstds[row + r] = rstd[r];
    }
}

template <typename Hold, bool kCentred, typename Source, typename T, int V, typename Args>
cudaError_t launch_held(const Source& source, Pack<T, V>* added, const Args& args) {
    const int64_t packs = args.length / V;
    const unsigned threads = Hold::kTeam == 0 ? block_for(packs, Hold::kPacks) : unsigned(Hold::kThreads);
    constexpr int64_t kEach = Hold::kTeams * Hold::kRows;
    const int64_t blocks = (args.rows + kEach - 1) / kEach;
    return launched(
        norm_held<Hold, kCentred, Source, T, V>, unsigned(blocks), threads, args.stream, source, weight_of(args),
        bias_of(args), static_cast<Pack<T, V>*>(args.y), added, args.mean, args.rstd,
        unsigned(args.rows), int(packs), 1.0f / float(args.length), float(args.eps));
}

}  // namespace kernelwright
