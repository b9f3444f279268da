// The check behind the product: tiles of which a row may have lost too much are computed anew in float arithmetic
// (matmul_fp32x3/csrc/anew.cuh).
//
// The product leaves the largest value of each row of a tile, and whether one is too small in case all its products lost something;
// the splits how many values of a row are small: what is lost grows as the root of that number.
#pragma once

#include "product_sm90.cuh"

namespace kernelwright::linear {

static_assert(kTile == kSide);

// Whether a row of a tile may have lost too much; asked by all lanes of a warp.
__device__ __forceinline__ bool is_lost_in(const Product& p, const Tile& tile) {
    constexpr int kRows = kTile / 32;  // of a lane
    const int lane = threadIdx.x % 32, of_x = tile.of_x * kTile + lane, of_weight = tile.of_weight * kTile + lane;
    const float* of_rows = p.sizes + static_cast<int64_t>(tile.of_weight) * p.m_tiles() * kTile + of_x;
    int exponents[kRows], small[kRows], least = kNothing, most = 0;  // of the columns: the largest's exponent, small values
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
    bool is_lost = false;
    #pragma unroll
    for (int i = 0; i < kRows; ++i) {
        const float needed = matmul::needed_for(static_cast<float>(small[i] + most));
        is_lost = is_lost || sizes[i] * share < unscaled(needed, exponents[i] + least);
    }
    return __any_sync(0xffffffffu, is_lost);
}

// Ends at once where nothing is suspect. Else a warp judges each tile of the block, which computes anew what is lost.
template <class Finish>
__global__ void __launch_bounds__(matmul::kAnewThreads, 1)
    linear_anew(const __grid_constant__ Product p, const matmul::Plain x, const matmul::Plain weight, const Finish finish) {
    constexpr int kWarps = matmul::kAnewThreads / 32;
    union Shared {
        matmul::Slices slices;
        typename Finish::Shared finish;
    };
    __shared__ Shared shared;
    __shared__ bool is_lost[kWarps];
    await_earlier();
    if (__ldcg(p.suspect) == 0) return;
    for (int first = blockIdx.x; first < p.tiles(); first += kWarps * gridDim.x) {
        const int own = first + static_cast<int>(threadIdx.x / 32 * gridDim.x);
        const bool has_one = own < p.tiles();
        const bool found = is_lost_in(p, tile_at(p, has_one ? own : first));
        if (threadIdx.x % 32 == 0) is_lost[threadIdx.x / 32] = has_one && found;
        if (!__syncthreads_or(has_one && found)) continue;
        for (int i = 0; i < kWarps; ++i) {
            if (!is_lost[i]) continue;
            const Tile tile = tile_at(p, first + i * static_cast<int>(gridDim.x));
            float sums[8][8] = {};
            matmul::sum_anew(sums, shared.slices, x, weight, int64_t{tile.of_x} * kTile, int64_t{tile.of_weight} * kTile,
                             [] { __syncthreads(); });
            finish(p, sums, tile, shared.finish);
            __syncthreads();
        }
        __syncthreads();  // all have read what was found
    }
}

template <class Finish>
cudaError_t compute_anew(const Product& p, const Forward& args, const Finish& finish, int sms, cudaStream_t stream) {
    const matmul::Plain x = {args.x, args.m, args.k, args.k, 1, matmul::kWhole};
    const matmul::Plain weight = {args.weight, args.n, args.k, args.k, 1, matmul::kWhole};
    const auto blocks = static_cast<unsigned>(std::min(sms, p.tiles()));
    return launched(linear_anew<Finish>, blocks, matmul::kAnewThreads, stream, p, x, weight, finish);
}

}  // namespace kernelwright::linear
