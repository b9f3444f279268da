// LayerNorm and RMSNorm backward for few long rows, also of x + residual, shared by several blocks. The first kernel
// handles columns of all rows: it computes the parameters' gradients and the blocks' shares of the rows' sums. The
// second kernel computes dx and finds the tensors in L2.
#pragma once

#include "norm_gradients_few.cuh"
#include "row_teams.cuh"

namespace kernelwright {

constexpr int kSplitPacks = 2;  // packs of a row in a thread's registers
constexpr int kSplitBlocks = 2;  // resident blocks per SM
constexpr int kPartPacks = kSplitPacks * kFewThreads;  // packs of a row per block

// Computes the parameters' gradients for one slab of columns per block, and the slab's shares of the rows' sums. `sums`
// is [rows, slabs].
template <bool kCentred, typename T, int V>
__global__ void __launch_bounds__(kFewThreads, kSplitBlocks) gradients_of_slabs(
    const ColumnArguments<T, V> args, RowSums* sums) {
    await_earlier();
    gradients_of_columns<kCentred, true>(args, int(blockIdx.x), int(gridDim.x), sums);
}

// Computes dx for one part of a row per block. The last parts come first, since gradients_of_slabs read them last.
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

// Launches both kernels, for calls with parameters' gradients. The workspace holds the shares of the rows' sums.
template <bool kCentred, bool kSum, typename T, int V>
cudaError_t launch_split_rows(const AddRowBackward& args) {
    auto* sums = static_cast<RowSums*>(args.workspace);
    const auto given = column_arguments<T, V>(args, kLogWarp);  // rows this long have columns for every SM
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
