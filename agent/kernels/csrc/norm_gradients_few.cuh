// LayerNorm and RMSNorm, backward, of few rows or sums of two: every gradient by one launch.
//
// Some blocks take a row each and make dx, others take columns and make the parameters' gradients: they wait for nothing,
// and read the tensors a second time, which of few rows costs less than a second launch.
#pragma once

#include "launched.cuh"
#include "row_norm_backward_long.cuh"

namespace kernelwright {

constexpr int kFewThreads = 512;
constexpr int kFewUnder = 2;   // packs of a longer row that a thread has under way
constexpr int kFewBytes = 64;  // of a row, that a block's columns are wide at the least: two sectors of memory

// The parameters' gradients of `width` packs of columns, a power of two up to the warp, from pack `begin` on.
template <bool kCentred, typename T, int V>
__device__ __forceinline__ void gradients_of_columns(
    const Pack<T, V>* dy, const Pack<T, V>* x, const float* means, const float* rstds, void* dweight, void* dbias,
    bool wide, int64_t rows, int64_t packs, int64_t begin, int width) {
    constexpr int kKinds = kCentred ? 2 : 1;
    __shared__ float table[kKinds][kFewThreads / kWarp][V][kWarp];
    const int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp, warps = int(blockDim.x) / kWarp;
    const int64_t column = begin + lane % width;
    Pack<float, V> sums[kKinds] = {};
    if (column < packs) {
        #pragma unroll 4
        for (int64_t row = int(threadIdx.x) / width; row < rows; row += int(blockDim.x) / width) {
            const Pack<T, V> given = dy[row * packs + column], value = x[row * packs + column];
            const Pack<float, V> g = widened(given), wide_value = widened(value);
            const float mean = kCentred ? means[row] : 0.0f, rstd = rstds[row];
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                sums[0].v[k] = fmaf(g.v[k], (wide_value.v[k] - mean) * rstd, sums[0].v[k]);
                if (kCentred) sums[kKinds - 1].v[k] += g.v[k];
            }
        }
    }
    #pragma unroll
    for (int kind = 0; kind < kKinds; ++kind) {
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            float sum = sums[kind].v[k];
            for (int offset = width; offset < kWarp; offset *= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
            if (lane < width) table[kind][warp][k][lane] = sum;
        }
    }
    __syncthreads();
    for (int i = int(threadIdx.x); i < kKinds * width * V; i += int(blockDim.x)) {
        const int kind = i / (width * V), at = i / V % width, k = i % V;
        void* gradient = kind == 0 ? dweight : dbias;
        if (gradient == nullptr || begin + at >= packs) continue;
        float sum = 0.0f;
        for (int other = 0; other < warps; ++other) sum += table[kind][other][k][at];
        set_parameter<T>(gradient, wide, (begin + at) * V + k, sum);
    }
}

// Blocks for columns, of which there are `column_blocks`, and for rows; what takes longer first.
template <bool kCentred, bool kSum, typename T, int V>
__global__ void __launch_bounds__(kFewThreads) gradients_of_few_rows(
    const Pack<T, V>* dy, const Pack<T, V>* dadded, const Pack<T, V>* x, Parameter weight, const float* means,
    const float* rstds, Pack<T, V>* dx, void* dweight, void* dbias, int64_t rows, int64_t packs, int64_t column_blocks,
    int width, bool rows_first) {
    await_earlier();
    const int64_t slab = int64_t{blockIdx.x} - (rows_first ? rows : 0);
    if (slab >= 0 && slab < column_blocks) {
        gradients_of_columns<kCentred>(
            dy, x, means, rstds, dweight, dbias, weight.wide, rows, packs, slab * width, width);
    } else if (dx != nullptr) {
        const int64_t row = int64_t{blockIdx.x} - (rows_first ? 0 : column_blocks);
        with_parameters<T>(weight.wide, [&](auto parameter) {
            gradient_of_row<kFewUnder, kCentred, kSum, decltype(parameter)>(
                row, dy, dadded, x, weight.values, means, rstds, dx, packs);
        });
    }
}

template <bool kCentred, bool kSum, typename T, int V>
cudaError_t launch_few_rows(const AddRowBackward& args) {
    const int64_t packs = args.length / V;
    const int64_t threads = std::clamp<int64_t>(block_for(packs, kLongPacks), kFewThreads / 2, kFewThreads);
    int width = kWarp;
    while (width > kFewBytes / int(sizeof(Pack<T, V>)) && threads / width < args.rows) width /= 2;
    const int64_t columns = wants_parameters(args) ? (packs + width - 1) / width : 0;
    return launched(
        gradients_of_few_rows<kCentred, kSum, T, V>, unsigned(columns + args.rows), unsigned(threads), args.stream,
        static_cast<const Pack<T, V>*>(args.dy), static_cast<const Pack<T, V>*>(args.dadded),
        static_cast<const Pack<T, V>*>(args.added), weight_of(args), args.mean, args.rstd,
        static_cast<Pack<T, V>*>(args.dx), args.dweight, args.dbias, args.rows, packs,
        columns, width, packs > kLongPacks * threads);
}

}  // namespace kernelwright
