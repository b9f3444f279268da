// Transposes [rows, columns] to [columns, rows], in tiles of 32 x 32 through shared memory.
#pragma once

#include "sizes.cuh"

namespace kernelwright::linear {

constexpr int kPiece = 32;
constexpr int kPieceRows = 8;  // rows of threads in a block

__global__ void transpose_tiles(const float* from, float* to, int64_t rows, int64_t columns) {
    __shared__ float piece[kPiece][kPiece + 1];
    const int64_t across = ceil_div(columns, kPiece);
    const int64_t row = blockIdx.x / across * kPiece;
    const int64_t column = blockIdx.x % across * kPiece;
    for (int i = threadIdx.y; i < kPiece; i += kPieceRows) {
        const bool inside = row + i < rows && column + threadIdx.x < columns;
        piece[i][threadIdx.x] = inside ? from[(row + i) * columns + column + threadIdx.x] : 0.0f;
    }
    __syncthreads();
    for (int i = threadIdx.y; i < kPiece; i += kPieceRows) {
        const bool inside = column + i < columns && row + threadIdx.x < rows;
        if (inside) to[(column + i) * rows + row + threadIdx.x] = piece[threadIdx.x][i];
    }
}

inline cudaError_t transpose(const float* from, float* to, int64_t rows, int64_t columns, cudaStream_t stream) {
    const int64_t pieces = ceil_div(rows, kPiece) * ceil_div(columns, kPiece);
    if (pieces > kMostBlocks) return cudaErrorInvalidValue;
    transpose_tiles<<<static_cast<unsigned>(pieces), dim3(kPiece, kPieceRows), 0, stream>>>(from, to, rows, columns);
    return cudaGetLastError();
}

}  // namespace kernelwright::linear
