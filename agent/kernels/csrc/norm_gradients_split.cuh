// LayerNorm and RMSNorm, backward, of few long rows or sums of two, which several blocks share: the blocks of one kernel
// take columns of all rows, make the parameters' gradients and add up their parts of the rows' sums; the next makes dx,
// and finds the tensors in the L2 cache.
#pragma once

#include "norm_gradients_few.cuh"
#include "row_teams.cuh"

namespace kernelwright {

constexpr int kSplitPacks = 2;  // of a row, in the registers of a thread
constexpr int kSplitBlocks = 2;  // on an SM
constexpr int kPartPacks = kSplitPacks * kFewThreads;  // of a block

// `sums` is [rows, slabs], a slab to a block.
template <bool kCentred, typename T, int V>
__global__ void __launch_bounds__(kFewThreads, kSplitBlocks) gradients_of_slabs(
    const ColumnArguments<T, V> args, RowSums* sums) {
    await_earlier();
    gradients_of_columns<kCentred, true>(args, int(blockIdx.x), int(gridDim.x), sums);
}

// The last parts first, which were read last.
template <bool kCentred, bool kSum, typename T, int V>
__global__ void __launch_bounds__(kFewThreads, kSplitBlocks) gradients_of_parts(
    const ColumnArguments<T, V> args, const Pack<T, V>* dadded, const RowSums* sums, Pack<T, V>* dx, int parts,
    int slabs) {
    __shared__ RowSums of_warp[kMaxWarps];
    await_earlier();
    const int place = int(gridDim.x - 1 - blockIdx.x), row = place / parts, packs = args.packs;
    const int part = place % parts * kPartPacks, first = part + int(threadIdx.x), end = min(packs, part + kPartPacks);
    const int64_t begin = int64_t{row} * packs;
    const float mean = kCentred ? args.means[row] : 0.0f, rstd = args.rstds[row];
    const bool adds = kSum && dadded != nullptr;
    with_parameters<T>(args.weight.wide, [&](auto parameter) {
        using P = decltype(parameter);
        const RowGradient<kCentred, T, V> gradient = {mean, rstd};
        Pack<T, V> dy_tile[kSplitPacks], x_tile[kSplitPacks], own[kSplitPacks];
        Pack<P, V> scale[kSplitPacks];
        each_pack<kSplitPacks>(first, kFewThreads, end, [&](int u, int at) {
            dy_tile[u] = args.dy[begin + at];
            x_tile[u] = args.x[begin + at];
            scale[u] = scale_at<P, V>(args.weight.values, at);
            if (adds) own[u] = dadded[begin + at];
        });
        RowSums all = {0.0f, 0.0f};
        for (int slab = int(threadIdx.x); slab < slabs; slab += kFewThreads) {
            const RowSums one = sums[int64_t{row} * slabs + slab];
            all.plain += one.plain;
            all.with_normal += one.with_normal;
        }
        all = warps_sums<kCentred>(all, of_warp, 0, kFewThreads);
        const float plain = all.plain * args.share, with_normal = all.with_normal * args.share;
        each_pack<kSplitPacks>(first, kFewThreads, end, [&](int u, int at) {
            dx[begin + at] = gradient.of_input(
                dy_tile[u], x_tile[u], scale[u], adds ? &own[u] : nullptr, plain, with_normal);
        });
    });
}

inline int64_t parts_of_row(int64_t packs) { return (packs + kPartPacks - 1) / kPartPacks; }

// With parameters' gradients: the parts of the rows' sums lie in the workspace.
template <bool kCentred, bool kSum, typename T, int V>
cudaError_t launch_split_rows(const AddRowBackward& args) {
    auto* sums = static_cast<RowSums*>(args.workspace);
    const auto given = column_arguments<T, V>(args, kLogWarp);  // such rows have columns for every SM
    const int slabs = (given.packs + kWarp - 1) / kWarp, parts = int(parts_of_row(given.packs));
    const int64_t blocks = args.rows * parts;
    if (blocks > kMaxGrid) return cudaErrorInvalidValue;
    const cudaError_t done =
        launched(gradients_of_slabs<kCentred, T, V>, unsigned(slabs), kFewThreads, args.stream, given, sums);
    if (done != cudaSuccess || args.dx == nullptr) return done;
    return launched(
        gradients_of_parts<kCentred, kSum, T, V>, unsigned(blocks), kFewThreads, args.stream, given,
        static_cast<const Pack<T, V>*>(args.dadded), sums, static_cast<Pack<T, V>*>(args.dx), parts, slabs);
}

}  // namespace kernelwright
