// The check behind the product: tiles of which a row may have lost too much are computed anew in float arithmetic
// (matmul_fp32x3/csrc/anew.cuh).
//
// The product says how far a tile falls short of what would do if all its values were small, the splits how many are: what is lost
// grows as the root of that number.
#pragma once

#include "product_sm90.cuh"

namespace kernelwright::linear {

static_assert(kTile == kSide);

// Whether a tile lost too much; by all threads of a block. `most` is theirs, for the most that are small of a row of x and of one of
// the weight.
__device__ __forceinline__ bool is_lost(const Product& p, const Tile& tile, float times, int64_t depth, int (&most)[2]) {
    if (threadIdx.x < 2) most[threadIdx.x] = 0;
    __syncthreads();
    const int row = threadIdx.x % kTile, of = threadIdx.x / kTile;
    const int* small = of == 0 ? p.x.small + int64_t{tile.of_x} * kTile : p.weight.small + int64_t{tile.of_weight} * kTile;
    atomicMax(&most[of], __ldcg(small + row));
    __syncthreads();
    const float share = static_cast<float>(most[0] + most[1]) / (2.0f * static_cast<float>(depth));
    return share > 0.0f && times * sqrtf(share) > 1.0f;
}

// Ends at once where no tile falls short.
template <class Finish>
__global__ void __launch_bounds__(matmul::kAnewThreads, 1)
    linear_anew(const __grid_constant__ Product p, const matmul::Plain x, const matmul::Plain weight, const Finish finish) {
    union Shared {
        matmul::Slices slices;
        typename Finish::Shared finish;
    };
    __shared__ Shared shared;
    __shared__ int most[2];
    await_earlier();
    if (__ldcg(p.short_of) == 0) return;
    for (int number = blockIdx.x; number < p.tiles(); number += gridDim.x) {
        const float times = __int_as_float(__ldcg(p.short_of + 1 + number));
        const Tile tile = tile_at(p, number);
        if (times == 0.0f || !is_lost(p, tile, times, x.depth, most)) continue;
        float sums[8][8] = {};
        matmul::sum_anew(sums, shared.slices, x, weight, int64_t{tile.of_x} * kTile, int64_t{tile.of_weight} * kTile,
                         [] { __syncthreads(); });
        finish(p, sums, tile, shared.finish);
        __syncthreads();
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
