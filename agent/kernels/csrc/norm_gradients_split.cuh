// LayerNorm and RMSNorm, backward, of few long rows or sums of two, which several blocks share: one kernel adds up the
// rows' parts, and in other blocks the parameters' gradients; the next makes dx, and finds the tensors in the L2 cache.
#pragma once

#include "norm_gradients_few.cuh"
#include "row_teams.cuh"

namespace kernelwright {

constexpr int kPartPacks = kLongPacks * kFewThreads;  // of a row, in the registers of a block

// The part of a row that a block has: `place` counts the parts of all rows.
struct RowPart {
    int64_t row, first, end;  // the thread's first pack, kFewThreads before the next, and where the part ends

    __device__ __forceinline__ RowPart(int64_t place, int64_t parts, int64_t packs) {
        row = place / parts;
        const int64_t begin = place % parts * kPartPacks;
        first = begin + threadIdx.x;
        end = min(begin + kPartPacks, packs);
    }
};

// `sums` is [rows, parts].
template <bool kCentred, typename T, int V>
__global__ void __launch_bounds__(kFewThreads) sums_of_parts(
    const Pack<T, V>* dy, const Pack<T, V>* x, Parameter weight, const float* means, const float* rstds, RowSums* sums,
    void* dweight, void* dbias, int64_t rows, int64_t packs, int64_t parts, int width) {
    __shared__ RowSums of_warp[kMaxWarps];
    await_earlier();
    const int64_t slab = int64_t{blockIdx.x} - rows * parts;
    if (slab >= 0) {
        gradients_of_columns<kCentred>(
            dy, x, means, rstds, dweight, dbias, weight.wide, rows, packs, slab * width, width);
        return;
    }
    const RowPart part(blockIdx.x, parts, packs);
    const RowGradient<kCentred, T, V> gradient = {weight, kCentred ? means[part.row] : 0.0f, rstds[part.row]};
    Pack<T, V> dy_tile[kLongPacks], x_tile[kLongPacks];
    each_pack<kLongPacks>(part.first, kFewThreads, part.end, [&](int u, int64_t at) {
        dy_tile[u] = dy[part.row * packs + at];
        x_tile[u] = x[part.row * packs + at];
    });
    RowSums mine = {0.0f, 0.0f};
    each_pack<kLongPacks>(part.first, kFewThreads, part.end, [&](int u, int64_t at) {
        gradient.sums(dy_tile[u], x_tile[u], at, &mine.plain, &mine.with_normal);
    });
    mine = warps_sums<kCentred>(mine, of_warp, kFewThreads);
    if (threadIdx.x == 0) sums[blockIdx.x] = mine;
}

// The last parts first, which were read last.
template <bool kCentred, bool kSum, typename T, int V>
__global__ void __launch_bounds__(kFewThreads) gradients_of_parts(
    const Pack<T, V>* dy, const Pack<T, V>* dadded, const Pack<T, V>* x, Parameter weight, const float* means,
    const float* rstds, const RowSums* sums, Pack<T, V>* dx, int64_t packs, int64_t parts) {
    await_earlier();
    const RowPart part(gridDim.x - 1 - blockIdx.x, parts, packs);
    const RowGradient<kCentred, T, V> gradient = {weight, kCentred ? means[part.row] : 0.0f, rstds[part.row]};
    const int64_t begin = part.row * packs;
    const bool adds = kSum && dadded != nullptr;
    Pack<T, V> dy_tile[kLongPacks], x_tile[kLongPacks], own[kLongPacks];
    each_pack<kLongPacks>(part.first, kFewThreads, part.end, [&](int u, int64_t at) {
        dy_tile[u] = dy[begin + at];
        x_tile[u] = x[begin + at];
        if (adds) own[u] = dadded[begin + at];
    });
    RowSums all = {0.0f, 0.0f};
    for (int64_t other = threadIdx.x % kWarp; other < parts; other += kWarp) {
        const RowSums one = sums[part.row * parts + other];
        all.plain += one.plain;
        all.with_normal += one.with_normal;
    }
    all = lanes_sums<kWarp, kCentred>(all);
    const float share = 1.0f / float(packs * V);
    each_pack<kLongPacks>(part.first, kFewThreads, part.end, [&](int u, int64_t at) {
        dx[begin + at] = gradient.of_input(
            dy_tile[u], x_tile[u], adds ? &own[u] : nullptr, at, all.plain * share, all.with_normal * share);
    });
}

inline int64_t parts_of_row(int64_t packs) { return (packs + kPartPacks - 1) / kPartPacks; }

// With parameters' gradients: the sums of the rows' parts lie in the workspace.
template <bool kCentred, bool kSum, typename T, int V>
cudaError_t launch_split_rows(const AddRowBackward& args) {
    const auto* dy = static_cast<const Pack<T, V>*>(args.dy);
    const auto* x = static_cast<const Pack<T, V>*>(args.added);
    const Parameter weight = weight_of(args);
    auto* sums = static_cast<RowSums*>(args.workspace);
    const int64_t packs = args.length / V, parts = parts_of_row(packs);
    const int width = kWarp;  // such rows have columns for every SM
    const int64_t blocks = args.rows * parts, columns = (packs + width - 1) / width;
    if (blocks + columns > kMaxGrid) return cudaErrorInvalidValue;
    const cudaError_t done = launched(
        sums_of_parts<kCentred, T, V>, unsigned(blocks + columns), kFewThreads, args.stream, dy, x, weight, args.mean,
        args.rstd, sums, args.dweight, args.dbias, args.rows, packs, parts, width);
    if (done != cudaSuccess || args.dx == nullptr) return done;
    return launched(
        gradients_of_parts<kCentred, kSum, T, V>, unsigned(blocks), kFewThreads, args.stream, dy,
        static_cast<const Pack<T, V>*>(args.dadded), x, weight, args.mean, args.rstd, sums,
        static_cast<Pack<T, V>*>(args.dx), packs, parts);
}

}  // namespace kernelwright
