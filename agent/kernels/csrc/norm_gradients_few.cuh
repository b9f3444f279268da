// LayerNorm and RMSNorm backward for few rows, also of x + residual: every gradient in one launch.
//
// Some blocks handle one row each and compute dx. The other blocks handle columns and compute the parameters' gradients. The two kinds do
// not synchronise, so the tensors are read twice, which costs less than a second launch for few rows.
#pragma once

#include "launched.cuh"
#include "row_norm_backward_long.cuh"

namespace kernelwright {

constexpr int kFewThreads = 512;
constexpr int kLogWarp = 5;
constexpr int kFewBytes = 64;  // minimum width of a block's columns: two memory sectors

// Arguments for the gradients of columns.
template <typename T, int V>
struct ColumnArguments {
    const Pack<T, V>* dy;
    const Pack<T, V>* x;
    Parameter weight;
    const float* means;
    const float* rstds;
    void* dweight;  // or null
    void* dbias;
    int rows, packs;
    float share;    // 1 / length
    int log_width;  // packs of a row that a block handles, at most a warp
};

// Writes the sums of a row over the columns of a warp. `sums` is the element of [rows, slabs] for this row and slab.
template <bool kCentred, typename T, int V>
__device__ __forceinline__ void leave_row_sums(
    RowSums* sums, const Pack<float, V>& g, const Pack<float, V>& normal, const Pack<float, V>& scale, bool is_there) {
    RowSums mine = {0.0f, 0.0f};
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        const float scaled = g.v[k] * scale.v[k];
        if (kCentred) mine.plain += scaled;
        mine.with_normal = fmaf(scaled, normal.v[k], mine.with_normal);
    }
    mine = lanes_sums<kWarp, kCentred>(mine);
    if (is_there && threadIdx.x % kWarp == 0) *sums = mine;
}

// Computes the parameters' gradients of slab `slab` of the columns. With kRows a slab is a warp wide, and its share of
// each row's sums goes to `row_sums` [rows, slabs]. The block size is a power of two.
template <bool kCentred, bool kRows, typename T, int V>
__device__ __forceinline__ void gradients_of_columns(
    const ColumnArguments<T, V>& args, int slab, int slabs, RowSums* row_sums) {
    constexpr int kRowsUnderWay = kRows ? 2 : 4;  // rows in flight per thread; more would spill registers
    constexpr int kKinds = kCentred ? 2 : 1;
    constexpr int kEach = kKinds * V;  // sums that a thread accumulates
    // Partial sums of the threads that share columns, below each other. The padding in between avoids bank conflicts.
    __shared__ alignas(kVectorBytes) float table[kFewThreads * (kEach + 1)];
    const int log_width = kRows ? kLogWarp : args.log_width, width = 1 << log_width;
    const int thread = int(threadIdx.x), lane = thread & (width - 1);
    const int group = thread >> log_width, groups = int(blockDim.x) >> log_width;
    const int begin = slab * width, column = begin + lane, packs = args.packs;
    Pack<float, V> sums[kKinds] = {};
    Pack<float, V> scale = filled<float, V>(1.0f);
    if (kRows && args.weight.values != nullptr && column < packs) {
        scale = args.weight.template pack<T, V>(column);
    }
    for (int top = 0; top < args.rows; top += kRowsUnderWay * groups) {
        const int first = top + group;
        Pack<T, V> dy[kRowsUnderWay] = {}, x[kRowsUnderWay] = {};
        float mean[kRowsUnderWay] = {}, rstd[kRowsUnderWay] = {};
        each_pack<kRowsUnderWay>(first, groups, args.rows, [&](int u, int row) {
            if (column < packs) {
                dy[u] = args.dy[int64_t{row} * packs + column];
                x[u] = args.x[int64_t{row} * packs + column];
            }
            if (kCentred) mean[u] = args.means[row];
            rstd[u] = args.rstds[row];
        });
        #pragma unroll
        for (int u = 0; u < kRowsUnderWay; ++u) {
            const Pack<float, V> g = widened(dy[u]), value = widened(x[u]);
            Pack<float, V> normal;
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                normal.v[k] = (value.v[k] - mean[u]) * rstd[u];
                sums[0].v[k] = fmaf(g.v[k], normal.v[k], sums[0].v[k]);
                if (kCentred) sums[kKinds - 1].v[k] += g.v[k];
            }
            if constexpr (kRows) {
                const int row = first + u * groups;
                leave_row_sums<kCentred, T, V>(row_sums + int64_t{row} * slabs + slab, g, normal, scale, row < args.rows);
            }
        }
    }
    const int outputs = kEach * width, stride = outputs + width;
    constexpr int kStored = V < kVector<float> ? V : kVector<float>;
    #pragma unroll
    for (int i = 0; i < kEach; i += kStored) {
        float* to = table + group * stride + (i / V * width + lane) * V + i % V;
        *reinterpret_cast<Pack<float, kStored>*>(to) = *reinterpret_cast<const Pack<float, kStored>*>(&sums[i / V].v[i % V]);
    }
    __syncthreads();
    // Neighbouring lanes add up the parts of one output.
    const int log_parts = 31 - __clz(int(blockDim.x) / kEach >> log_width), parts = 1 << log_parts;
    const int output = thread >> log_parts, part = thread & (parts - 1);
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < kEach; ++i) {
        const int other = part + i * parts;
        sum += other < groups ? table[other * stride + output] : 0.0f;
    }
    for (int offset = 1; offset < parts; offset *= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    const int kind = output >= width * V ? 1 : 0;
    const int64_t at = int64_t{begin} * V + (output & (width * V - 1));
    void* gradient = kind == 0 ? args.dweight : args.dbias;
    if (part == 0 && gradient != nullptr && at < int64_t{packs} * V) set_parameter<T>(gradient, args.weight.wide, at, sum);
}

// Blocks for columns (`column_blocks` of them) and blocks for rows. Blocks of the longer-running kind come first.
template <bool kCentred, bool kSum, typename T, int V>
__global__ void __launch_bounds__(kFewThreads) gradients_of_few_rows(
    const ColumnArguments<T, V> args, const Pack<T, V>* dadded, Pack<T, V>* dx, int column_blocks, bool rows_first) {
    const int slab = int(blockIdx.x) - (rows_first ? args.rows : 0);
    const int row = int(blockIdx.x) - (rows_first ? 0 : column_blocks);
    if (dx != nullptr && row >= 0 && row < args.rows && threadIdx.x % (kLineBytes / sizeof(*dx)) == 0) {
        // Prefetches only dy and dadded: the forward has read the other tensors, so they are in L2.
        for (int at = int(threadIdx.x); at < args.packs; at += int(blockDim.x)) {
            bring_near(args.dy + int64_t{row} * args.packs + at);
            if (kSum && dadded != nullptr) bring_near(dadded + int64_t{row} * args.packs + at);
        }
    }
    await_earlier();
    if (slab >= 0 && slab < column_blocks) {
        gradients_of_columns<kCentred, false>(args, slab, column_blocks, nullptr);
    } else if (dx != nullptr) {
        with_parameters<T>(args.weight.wide, [&](auto parameter) {
            gradient_of_row<kCentred, kSum, decltype(parameter)>(
                row, args.dy, dadded, args.x, args.weight.values, args.means, args.rstds, dx, args.packs, args.share);
        });
    }
}

template <typename T, int V>
ColumnArguments<T, V> column_arguments(const AddRowBackward& args, int log_width) {
    return {static_cast<const Pack<T, V>*>(args.dy), static_cast<const Pack<T, V>*>(args.added), weight_of(args), args.mean,
            args.rstd, args.dweight, args.dbias, int(args.rows), int(args.length / V), 1.0f / float(args.length), log_width};
}

template <bool kCentred, bool kSum, typename T, int V>
cudaError_t launch_few_rows(const AddRowBackward& args) {
    const int64_t packs = args.length / V;
    const int threads = packs > kLongPacks * kFewThreads / 2 ? kFewThreads : kFewThreads / 2;
    constexpr int kEach = (kCentred ? 2 : 1) * V;
    int log_width = kLogWarp;
    while (threads / kEach >> log_width == 0) --log_width;  // at least one thread for each result of a block
    while (kFewBytes / int(sizeof(Pack<T, V>)) < 1 << log_width && threads >> log_width < args.rows) --log_width;
    const int64_t columns = wants_parameters(args) ? (packs + (1 << log_width) - 1) >> log_width : 0;
    return launched(
        gradients_of_few_rows<kCentred, kSum, T, V>, unsigned(columns + args.rows), unsigned(threads), args.stream,
        column_arguments<T, V>(args, log_width), static_cast<const Pack<T, V>*>(args.dadded),
        static_cast<Pack<T, V>*>(args.dx), int(columns), packs > kLongPacks * threads);
}

}  // namespace kernelwright
