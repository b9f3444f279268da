// y = alpha * a * b in float arithmetic where a is known to be mostly zeros, on sm_90a: nothing is split, and what of b meets zeros
// alone is not read (anew_tile.cuh).
#pragma once

#include "anew_tile.cuh"

namespace kernelwright::matmul {

// A block takes tiles that follow each other in a row of them.
__global__ void __launch_bounds__(kAnewThreads, 1) matmul_sparse(const __grid_constant__ Forward args, int tiles) {
    extern __shared__ __align__(16) unsigned char memory[];
    auto& spans = *reinterpret_cast<Spans*>(memory);
    const int n_tiles = static_cast<int>(ceil_div(args.n, kSide)), m_tiles = static_cast<int>(ceil_div(args.m, kSide));
    const int share = (tiles - 1) / static_cast<int>(gridDim.x) + 1, first = share * static_cast<int>(blockIdx.x);
    const Outcome out = {nullptr, args.y, 0, 0, 0, static_cast<float>(args.alpha), 0.0f};
    await_earlier();
    const bool zeros_count = args.c != nullptr && !isfinite(__ldg(args.c));
    int strip = -1;  // whose values are known
    for (int i = first; i < min(first + share, tiles); ++i) {
        const int row = i / n_tiles;
        if (row != strip && threadIdx.x == 0) spans.known = kNotKnown;
        __syncthreads();
        strip = row;
        const int64_t batch = row / m_tiles, first_row = int64_t{row % m_tiles} * kSide, first_column = int64_t{i % n_tiles} * kSide;
        const Plain a = {args.a + batch * args.a_batch, args.m, args.k, args.a_row, args.a_depth, args.a_part};
        const Plain b = {args.b + batch * args.b_batch, args.n, args.k, args.b_column, args.b_depth, turned(args.b_part)};
        float all[8][8] = {};
        if (is_there(args.y_part, first_row / kSide, first_column / kSide)) {
            sum_anew<8>(all, spans, a, b, first_row, first_column, zeros_count, [] { __syncthreads(); });
        }
        store_tile(out, all, args.m, args.n, args.y_part, batch, first_row, first_column, args.m);
    }
}

inline cudaError_t multiply_sparse(const Forward& args, int64_t sms) {
    const int64_t tiles = args.batch * ceil_div(args.m, kSide) * ceil_div(args.n, kSide);
    if (tiles > kMostBlocks || std::max({args.m, args.n, args.k}) > kMostBlocks - kSide) return cudaErrorInvalidValue;
    return launched_anew(matmul_sparse, static_cast<unsigned>(std::min(sms, tiles)), args.stream, args, static_cast<int>(tiles));
}

}  // namespace kernelwright::matmul
