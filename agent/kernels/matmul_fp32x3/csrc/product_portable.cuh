// The portable path: y = alpha * a * b + beta * c in float arithmetic, each element summed in the order of K, for any layout.
//
// See linear_fp32x3/csrc/product_portable.cuh. A block of 256 threads computes a tile of 128 x 128 from slices of 8 of K.
#pragma once

#include "plain_tile.cuh"

namespace kernelwright::matmul {

// Computes tile (i, j) of a matrix in block (i, j, matrix); i varies fastest.
__global__ void __launch_bounds__(kPlainThreads, 2) matmul_ieee(const __grid_constant__ Forward args) {
    __shared__ Slices slices;
    const bool sparse = args.precision == kSparseA;
    if (sparse && isfinite(__ldg(args.c))) return;  // the sparse kernel has computed y
    const int64_t m_tiles = ceil_div(args.m, kSide), tiles = m_tiles * ceil_div(args.n, kSide);
    const int64_t batch = blockIdx.x / tiles;
    const int64_t first_row = blockIdx.x % tiles % m_tiles * kSide;
    const int64_t first_column = blockIdx.x % tiles / m_tiles * kSide;
    const Plain a = {args.a + batch * args.a_batch, args.m, args.k, args.a_row, args.a_depth, args.a_part};
    const Plain b = {args.b + batch * args.b_batch, args.n, args.k, args.b_column, args.b_depth, turned(args.b_part)};
    float sum[8][8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] = 0.0f;
    }
    const int64_t begin = max(a.begin_in(first_row), b.begin_in(first_column));
    const int64_t end = is_there(args.y_part, first_row, first_column) ? min(a.end_in(first_row), b.end_in(first_column)) : 0;
    multiply_range(sum, slices, a, b, first_row, first_column, begin, end, [] { __syncthreads(); });
    const Outcome out = {sparse ? nullptr : args.c, args.y, args.c_batch, args.c_row, args.c_column, float(args.alpha), float(args.beta)};
    store_tile(out, sum, args.m, args.n, args.y_part, batch, first_row, first_column, args.m);
}

inline cudaError_t multiply_portable(const Forward& args) {
    const int64_t tiles = args.batch * ceil_div(args.m, kSide) * ceil_div(args.n, kSide);
    if (tiles > kMostBlocks) return cudaErrorInvalidValue;
    matmul_ieee<<<static_cast<unsigned>(tiles), kPlainThreads, 0, args.stream>>>(args);
    return cudaGetLastError();
}

}  // namespace kernelwright::matmul
