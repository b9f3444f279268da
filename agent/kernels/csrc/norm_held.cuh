// LayerNorm and RMSNorm, forward, of rows that registers hold, or of sums of two rows, which are a result too.
//
// What is normalised is read once, and the variance is that of the deviations from the finished mean. A team of lanes
// of a warp takes a short row, a block a longer one.
#pragma once

#include "add_norm.cuh"
#include "launched.cuh"

namespace kernelwright {

constexpr int kFewWarps = 8;

// The sum over a block, in every thread of it. `of_warp` is shared memory for kMaxWarps values, aligned as float4, that
// no other sum uses. Every thread reads and adds up what few warps found: of few rows nothing hides five more shuffles.
__device__ __forceinline__ float block_sum(float mine, float* of_warp) {
    #pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffff, mine, offset);
    const unsigned warps = blockDim.x / kWarp, thread = threadIdx.x;
    if (warps == 1) return mine;
    if (thread % kWarp == 0) of_warp[thread / kWarp] = mine;
    if (thread >= warps && thread < kFewWarps) of_warp[thread] = 0.0f;
    __syncthreads();
    if (warps <= kFewWarps) {
        const float4 a = reinterpret_cast<const float4*>(of_warp)[0], b = reinterpret_cast<const float4*>(of_warp)[1];
        return ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
    }
    mine = thread % kWarp < warps ? of_warp[thread % kWarp] : 0.0f;
    #pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffff, mine, offset);
    return mine;
}

// Who holds a row: kTeam neighbouring lanes of a warp, or where that is 0 a block, each thread up to kPacks packs.
// kBlocks of kThreads have to stand on an SM, which bounds their registers. kEarly: the parameters are asked for with
// the row; they take registers that more rows need, but of few or short rows nothing else hides how long they are on
// their way. kWide: they are in float32 beside 16-bit elements, and come late.
template <int kTeam_, int kPacks_, int kThreads_, int kBlocks_, bool kEarly_ = false, bool kWide_ = false>
struct Held {
    static constexpr int kTeam = kTeam_, kPacks = kPacks_, kThreads = kThreads_, kBlocks = kBlocks_;
    static constexpr bool kEarly = kEarly_, kWide = kWide_;
    static constexpr int kTeams = kThreads / (kTeam == 0 ? kThreads : kTeam);  // of a block

    __device__ __forceinline__ static unsigned team() { return kTeam == 0 ? 0 : threadIdx.x / (kThreads / kTeams); }
    __device__ __forceinline__ static unsigned step() { return kTeam == 0 ? blockDim.x : kTeam; }

    // Over the threads of a row, in each of them; every lane of a warp calls it.
    __device__ __forceinline__ static float sum(float mine, float* of_warp) {
        if constexpr (kTeam == 0) return block_sum(mine, of_warp);
        #pragma unroll
        for (int offset = kTeam / 2; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffff, mine, offset);
        return mine;
    }
};

// weight[at] and bias[at]; 1 and 0 where there are none. Of packs of one element the parameters may be in float32 beside
// 16-bit elements, which takes no more registers.
template <typename T, int V>
struct Affine {
    using Stored = std::conditional_t<V == 1, float, T>;
    Pack<Stored, V> scale, shift;

    __device__ __forceinline__ void load(Parameter weight, Parameter bias, int at) {
        if constexpr (V == 1) {
            scale = weight.pack_or<T, V>(1.0f, at);
            shift = bias.pack_or<T, V>(0.0f, at);
        } else {
            scale = filled<T, V>(1.0f);
            shift = filled<T, V>(0.0f);
            if (weight.values != nullptr) scale = static_cast<const Pack<T, V>*>(weight.values)[at];
            if (bias.values != nullptr) shift = static_cast<const Pack<T, V>*>(bias.values)[at];
        }
    }

    __device__ __forceinline__ Pack<T, V> of(Pack<float, V> wide, float mean, float rstd) const {
        const Pack<float, V> scales = widened(scale), shifts = widened(shift);
        #pragma unroll
        for (int k = 0; k < V; ++k) wide.v[k] = fmaf((wide.v[k] - mean) * rstd, scales.v[k], shifts.v[k]);
        return narrowed<T>(wide);
    }
};

// With parameters in float32 beside 16-bit elements, which take twice the registers: four at a time.
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

// Where rows come from, here those of x. `of` answers what a row is made of, `first` and `second` load packs of that,
// and `made` makes one of the row. kSum: what was made is a result too. kLooksUp: where a row lies is read from memory.
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

// RMSNorm has no bias; `added` is null where the source's kSum is false.
template <typename Hold, bool kCentred, typename Source, typename T, int V>
__global__ void __launch_bounds__(Hold::kThreads, Hold::kBlocks) norm_held(
    const Source source, Parameter weight, Parameter bias, Pack<T, V>* __restrict__ y, Pack<T, V>* __restrict__ added,
    float* __restrict__ means, float* __restrict__ rstds, unsigned rows, int packs, float share, float eps) {
    await_earlier();
    // One pack stays as floats; of more, the elements as they are stored, which take half the registers.
    constexpr int kPacks = Hold::kPacks;
    using Kept = std::conditional_t<kPacks == 1, float, T>;
    __shared__ alignas(float4) float of_mean[kMaxWarps], of_variance[kMaxWarps];
    const unsigned row = blockIdx.x * Hold::kTeams + Hold::team();  // of fewer than 2^31, and a block's more
    const int step = int(Hold::step()), first = int(threadIdx.x - Hold::team() * Hold::step());
    const bool is_there = Hold::kTeam == 0 || row < rows;
    const int end = is_there ? packs : 0;  // a team without a row adds up too: its warp's lanes do so together
    const int64_t begin = int64_t{row} * packs;
    const auto each = [&](int until, auto f) {
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            const int at = first + u * step;
            if (at < until) f(u, at);
        }
    };
    if (!kCentred) bias.values = nullptr;
    y += begin;
    added += begin;
    const typename Source::Parts from = source.of(is_there ? row : 0, packs);
    Pack<T, V> tile[kPacks], other[kPacks];
    each(end, [&](int u, int at) {
        tile[u] = source.first(from, at);
        other[u] = source.second(from, at);
    });
    Affine<T, V> affine[kPacks];
    if (Hold::kEarly) each(packs, [&](int u, int at) { affine[u].load(weight, bias, at); });
    Pack<Kept, V> kept[kPacks];
    float sum = 0.0f, squares = 0.0f;
    each(end, [&](int u, int at) {
        tile[u] = source.made(from, tile[u], other[u]);
        if (Source::kSum) added[at] = tile[u];
        const Pack<float, V> wide = widened(tile[u]);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            if (kCentred) sum += wide.v[k];
            else squares = fmaf(wide.v[k], wide.v[k], squares);
        }
        if constexpr (kPacks == 1) {
            kept[u] = wide;
        } else {
            kept[u] = tile[u];
            keep_as_stored(kept[u]);
        }
    });
    const float mean = kCentred ? Hold::sum(sum, of_mean) * share : 0.0f;
    if (kCentred) {
        each(end, [&](int u, int) {
            const Pack<float, V> wide = widened(kept[u]);
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                const float deviation = wide.v[k] - mean;
                squares = fmaf(deviation, deviation, squares);
            }
            keep_as_stored(kept[u]);
        });
    }
    const float rstd = rsqrtf(Hold::sum(squares, of_variance) * share + eps);
    each(end, [&](int u, int at) {
        if constexpr (Hold::kWide) {
            y[at] = of_wide<T>(widened(kept[u]), mean, rstd, weight, bias, at);
        } else {
            if (!Hold::kEarly) affine[u].load(weight, bias, at);
            y[at] = affine[u].of(widened(kept[u]), mean, rstd);
        }
    });
    if (rstds != nullptr && first == 0 && is_there) {
        if (kCentred) means[row] = mean;
        rstds[row] = rstd;
    }
}

template <typename Hold, bool kCentred, typename Source, typename T, int V, typename Args>
cudaError_t launch_held(const Source& source, Pack<T, V>* added, const Args& args) {
    const int64_t packs = args.length / V;
    const unsigned threads = Hold::kTeam == 0 ? block_for(packs, Hold::kPacks) : unsigned(Hold::kThreads);
    const int64_t blocks = (args.rows + Hold::kTeams - 1) / Hold::kTeams;
    return launched(
        norm_held<Hold, kCentred, Source, T, V>, unsigned(blocks), threads, args.stream, source, weight_of(args),
        bias_of(args), static_cast<Pack<T, V>*>(args.y), added, args.mean, args.rstd, unsigned(args.rows), int(packs), 1.0f / float(args.length), float(args.eps));
}

}  // namespace kernelwright
