// The check after the product: tiles that may have lost too much accuracy are recomputed in float arithmetic
// (matmul_fp32x3/csrc/anew.cuh).
//
// The product notes the largest value of each row of a tile. It also flags rows that are too small in case all their products lost
// accuracy, and tiles whose sums may have few products. The split counts the small values of each row, because the loss grows as the
// square root of that number.
#pragma once

#include "../../matmul_fp32x3/csrc/anew_tile.cuh"
#include "product_sm90.cuh"

namespace kernelwright::linear {

static_assert(kTile == kSide);

// Threshold below which sums are short (matmul_fp32x3/csrc/anew.cuh). Against a split-K SGEMM it is higher than matmul::short_below,
// since sums leave the tensor cores every 64 of K.
// the tensor cores every 64 of K.
__device__ __forceinline__ float short_below(bool shared_out) { return shared_out ? 6.5f : matmul::short_below(false, false); }

enum Verdict { kKept, kDoubted, kLost };  // kDoubted: a sample of the sums has to be followed

// Judges whether a row of a tile may have lost too much accuracy, or its sums may be short. All lanes of a warp call it.
__device__ __forceinline__ Verdict judge(const Product& p, const Tile& tile) {
    constexpr int kRows = kTile / 32;  // rows per lane
    const int lane = threadIdx.x % 32, of_x = tile.of_x * kTile + lane, of_weight = tile.of_weight * kTile + lane;
    const float* of_rows = p.sizes + static_cast<int64_t>(tile.of_weight) * p.m_tiles() * kTile + of_x;
    int exponents[kRows], small[kRows], least = kNothing, most = 0;  // over the columns: exponent, number of small values
    float sizes[kRows];
    #pragma unroll
    for (int i = 0; i < kRows; ++i) {
        exponents[i] = __ldcg(p.x.exponents + of_x + 32 * i), small[i] = __ldcg(p.x.small + of_x + 32 * i);
        sizes[i] = __ldcg(of_rows + 32 * i);
        least = min(least, __ldcg(p.weight.exponents + of_weight + 32 * i));
        most = max(most, __ldcg(p.weight.small + of_weight + 32 * i));
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        least = min(least, __shfl_xor_sync(0xffffffffu, least, lanes));
        most = max(most, __shfl_xor_sync(0xffffffffu, most, lanes));
    }
    const float share = share_in(p, tile.of_weight);
    constexpr float kProduct = 1 << 26;  // least product of two largest values; without cancellation a row's largest sum exceeds it
    bool is_lost = false;
    int rows = 0;  // number of rows whose sums are small
    #pragma unroll
    for (int i = 0; i < kRows; ++i) {
        const float needed = matmul::needed_for(static_cast<float>(small[i] + most));
        is_lost = is_lost || sizes[i] * share < unscaled(needed, exponents[i] + least);
        rows += __popc(__ballot_sync(0xffffffffu, sizes[i] < unscaled(kProduct, exponents[i] + least)));
    }
    if (__any_sync(0xffffffffu, is_lost)) return kLost;
    return 2 * rows > min(kTile, p.m - tile.of_x * kTile) || may_have_few(p, tile) ? kDoubted : kKept;
}

// Recomputes the tiles that lost too much accuracy. Returns at once if no tile is suspect. Otherwise a block takes a few adjacent tiles at
// a time and judges each by one warp. For each doubted tile the whole block then computes some sums step by step, to see if it is lost. It recomputes the lost tiles.
template <class Finish>
__global__ void __launch_bounds__(matmul::kAnewThreads, 1)
    linear_anew(const __grid_constant__ Product p, const matmul::Plain x, const matmul::Plain weight, const Finish finish) {
    constexpr int kWarps = matmul::kAnewThreads / 32;
    extern __shared__ __align__(16) unsigned char memory[];
    auto& spans = *reinterpret_cast<matmul::Spans*>(memory);
    union Shared {
        matmul::Sample sample;
        typename Finish::Shared finish;
    };
    __shared__ Shared shared;
    __shared__ matmul::Followed followed[kWarps];
    __shared__ Verdict verdicts[kWarps];
    const auto meet = [] { __syncthreads(); };
    const bool shared_out = is_shared_out(p);
    await_earlier();
    if (__ldcg(p.suspect) == 0) return;
    const auto place_of = [&](int number) { return Tile{number / p.n_tiles(), number % p.n_tiles()}; };
    const int warp = threadIdx.x / 32, blocks = gridDim.x, of_block = min(kWarps, (p.tiles() - 1) / blocks + 1);  // of_block tiles per step
    int strip = -1;  // row of tiles for which the nonzero values of x are known
    for (int first = blockIdx.x * of_block; first < p.tiles(); first += of_block * blocks) {
        const bool has_one = warp < of_block && first + warp < p.tiles();
        const Verdict found = has_one ? judge(p, place_of(first + warp)) : kKept;
        if (threadIdx.x % 32 == 0) verdicts[warp] = found;
        if (!__syncthreads_or(found != kKept)) continue;
        for (int i = 0; i < of_block; ++i) {
            if (verdicts[i] == kKept) continue;
            const Tile tile = place_of(first + i);
            const int64_t row = int64_t{tile.of_x} * kTile, column = int64_t{tile.of_weight} * kTile;
            if (verdicts[i] == kDoubted &&
                !matmul::are_short(shared.sample, followed, x, weight, row, column, short_below(shared_out), shared_out, meet))
                continue;
            if (tile.of_x != strip && threadIdx.x == 0) spans.known = matmul::kNotKnown;
            strip = tile.of_x;
            const bool zeros_count = !__syncthreads_and(finish.is_finite(p, tile));
            float sums[8][8] = {};
            matmul::sum_anew<8, true>(sums, spans, x, weight, row, column, zeros_count, meet);
            finish(p, sums, tile, shared.finish);
            __syncthreads();
        }
        __syncthreads();  // all threads have read the verdicts
    }
}

template <class Finish>
cudaError_t compute_anew(const Product& p, const Forward& args, const Finish& finish, int sms, cudaStream_t stream) {
    const matmul::Plain x = {args.x, args.m, args.k, args.k, 1, matmul::kWhole};
    const matmul::Plain weight = {args.weight, args.n, args.k, args.k, 1, matmul::kWhole};
    const auto blocks = static_cast<unsigned>(std::min(sms, p.tiles()));
    return matmul::launched_anew(linear_anew<Finish>, blocks, stream, p, x, weight, finish);
}

}  // namespace kernelwright::linear
