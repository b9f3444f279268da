// LayerNorm and RMSNorm, forward, of rows that registers hold, or of sums of two rows, which are a result too.
//
// What is normalised is read once, and the variance is that of the deviations from the finished mean. A team of lanes
// of a warp takes a short row, a block a longer one.
#pragma once

#include "add_norm.cuh"

namespace kernelwright {

// Who holds a row: kTeam neighbouring lanes of a warp, or where that is 0 a block, each thread up to kPacks packs of
// kRows rows. kBlocks of kThreads have to stand on an SM, which bounds their registers. kEarly: the parameters are asked
// for with the rows; they take registers that more rows need, but of few rows, or of several in a thread, nothing else
// hides how long they are on their way.
template <int kTeam_, int kPacks_, int kThreads_, int kBlocks_, bool kEarly_ = false, int kRows_ = 1>
struct Held {
    static constexpr int kTeam = kTeam_, kPacks = kPacks_, kThreads = kThreads_, kBlocks = kBlocks_, kRows = kRows_;
    static constexpr bool kEarly = kEarly_;
    static constexpr int kTeams = kThreads / (kTeam == 0 ? kThreads : kTeam);  // of a block

    __device__ __forceinline__ static int team() { return int(threadIdx.x) / (kThreads / kTeams); }
    __device__ __forceinline__ static int step() { return kTeam == 0 ? int(blockDim.x) : kTeam; }

    // Over the threads of a row, in each of them; every lane of a warp calls it.
    __device__ __forceinline__ static float sum(float mine, float* of_warp) {
        if constexpr (kTeam == 0) return block_reduce<Sum>(mine, of_warp);
        #pragma unroll
        for (int offset = kTeam / 2; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffff, mine, offset);
        return mine;
    }
};

// weight[at] and bias[at]; 1 and 0 where there are none.
template <typename P, int V>
struct Affine {
    Pack<P, V> scale, shift;

    __device__ __forceinline__ void load(const Pack<P, V>* weight, const Pack<P, V>* bias, int64_t at) {
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            scale.v[k] = from_float<P>(1.0f);
            shift.v[k] = from_float<P>(0.0f);
        }
        if (weight != nullptr) scale = weight[at];
        if (bias != nullptr) shift = bias[at];
    }

    template <typename T>
    __device__ __forceinline__ Pack<T, V> of(Pack<T, V> pack, float mean, float rstd) const {
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float normal = (to_float(pack.v[k]) - mean) * rstd;
            pack.v[k] = from_float<T>(fmaf(normal, to_float(scale.v[k]), to_float(shift.v[k])));
        }
        return pack;
    }
};

// `residual` and `added` are null where kSum is false; RMSNorm has no bias.
template <typename Hold, bool kCentred, bool kSum, typename T, typename P, int V>
__global__ void __launch_bounds__(Hold::kThreads, Hold::kBlocks) norm_held(
    const Pack<T, V>* __restrict__ x, const Pack<T, V>* __restrict__ residual, const Pack<P, V>* __restrict__ weight,
    const Pack<P, V>* __restrict__ bias, Pack<T, V>* __restrict__ y, Pack<T, V>* __restrict__ added,
    float* __restrict__ means, float* __restrict__ rstds, int64_t rows, int packs, float share, float eps) {
    constexpr int kPacks = Hold::kPacks, kRows = Hold::kRows;
    static_assert(kRows == 1 || Hold::kTeam > 0, "a block's sums have room for one row");
    __shared__ float of_mean[kMaxWarps], of_variance[kMaxWarps];
    const int64_t top = int64_t{blockIdx.x} * (Hold::kTeams * kRows) + Hold::team();  // the rows are kTeams apart
    const int step = Hold::step(), first = int(threadIdx.x) - Hold::team() * step;
    if (!kCentred) bias = nullptr;
    Pack<T, V> tiles[kRows][kPacks], beside[kRows][kPacks];
    #pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const int64_t row = top + r * Hold::kTeams, begin = row * packs;
        each_pack<kPacks>(first, step, row < rows ? packs : 0, [&](int u, int64_t at) {
            tiles[r][u] = x[begin + at];
            if (kSum) beside[r][u] = residual[begin + at];
        });
    }
    Affine<P, V> affine[kPacks];
    if (Hold::kEarly) {
        each_pack<kPacks>(first, step, packs, [&](int u, int64_t at) { affine[u].load(weight, bias, at); });
    }
    #pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const int64_t row = top + r * Hold::kTeams, begin = row * packs;
        const int end = row < rows ? packs : 0;  // a team without a row adds up too: its warp's lanes do so together
        Pack<T, V>* tile = tiles[r];
        float sum = 0.0f;
        each_pack<kPacks>(first, step, end, [&](int u, int64_t at) {
            if (kSum) {
                tile[u] = total(tile[u], beside[r][u]);
                added[begin + at] = tile[u];
            }
            #pragma unroll
            for (int k = 0; k < V; ++k) sum += to_float(tile[u].v[k]);
            keep_as_stored(tile[u]);
        });
        const float mean = kCentred ? Hold::sum(sum, of_mean) * share : 0.0f;
        float squares = 0.0f;
        each_pack<kPacks>(first, step, end, [&](int u, int64_t) {
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                const float deviation = to_float(tile[u].v[k]) - mean;
                squares = fmaf(deviation, deviation, squares);
            }
            keep_as_stored(tile[u]);
        });
        const float rstd = rsqrtf(Hold::sum(squares, of_variance) * share + eps);
        each_pack<kPacks>(first, step, end, [&](int u, int64_t at) {
            if (!Hold::kEarly) affine[u].load(weight, bias, at);
            y[begin + at] = affine[u].of(tile[u], mean, rstd);
        });
        if (rstds != nullptr && first == 0 && row < rows) {
            if (kCentred) means[row] = mean;
            rstds[row] = rstd;
        }
    }
}

template <typename Hold, bool kCentred, bool kSum, typename T, typename P, int V>
cudaError_t launch_held(const AddRowForward& args) {
    const int64_t packs = args.length / V;
    const unsigned threads = Hold::kTeam == 0 ? block_for(packs, Hold::kPacks) : unsigned(Hold::kThreads);
    constexpr int kRows = Hold::kTeams * Hold::kRows;
    const int64_t blocks = (args.rows + kRows - 1) / kRows;
    norm_held<Hold, kCentred, kSum, T, P, V><<<unsigned(blocks), threads, 0, args.stream>>>(
        static_cast<const Pack<T, V>*>(args.x), static_cast<const Pack<T, V>*>(args.residual),
        static_cast<const Pack<P, V>*>(args.weight), static_cast<const Pack<P, V>*>(args.bias),
        static_cast<Pack<T, V>*>(args.y), static_cast<Pack<T, V>*>(args.added), args.mean, args.rstd, args.rows,
        int(packs), 1.0f / float(args.length), float(args.eps));
    return cudaGetLastError();
}

}  // namespace kernelwright
