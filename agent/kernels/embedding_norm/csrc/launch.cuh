// Rows of a table, a position's row added where there are any, and their LayerNorm or RMSNorm, forward.
//
// A block takes a row of the result, as for the norm of a sum: the table's row is read once, stored as it was found or
// summed, and normalised from registers.
#pragma once

#include "../../csrc/norm_held.cuh"
#include "table.cuh"

namespace kernelwright::embedding_norm {

// embedded = table[id] + positions[row % count], y = (embedded - mean) * rstd * weight + bias; RMSNorm has no mean.
struct Forward {
    const int64_t* ids;  // [rows]; one that is no entry makes its row NaN
    const void* table;   // [entries, length]
    const void* positions;  // [count, length], or null
    const void* weight;     // param_dtype [length], or null
    const void* bias;
    void* y;
    void* embedded;
    float* mean;  // [rows], or null where it is not wanted
    float* rstd;
    int64_t rows, length, entries, count;
    int64_t centred;  // LayerNorm
    int64_t dtype, param_dtype;
    double eps;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kThreads = 512;      // of a block at most: more would leave a thread too few registers
constexpr int kVectorPacks = 4;    // in one thread's registers
constexpr int kScalarPacks = 16;   // of one element, in one thread's registers
constexpr int64_t kMaxLength = int64_t{kScalarPacks} * kThreads;

template <bool kCentred, typename T, typename P, int V, int kPacks>
__global__ void __launch_bounds__(kThreads) norms(Forward args, int packs) {
    __shared__ float of_mean[kMaxWarps], of_variance[kMaxWarps];
    const int64_t row = row_here();
    if (row >= args.rows) return;
    const int64_t id = args.ids[row];
    const bool known = id >= 0 && id < args.entries;
    const auto* x = static_cast<const Pack<T, V>*>(args.table) + (known ? id : 0) * packs;
    auto* embedded = static_cast<Pack<T, V>*>(args.embedded) + row * packs;
    auto* y = static_cast<Pack<T, V>*>(args.y) + row * packs;
    const int first = int(threadIdx.x), step = int(blockDim.x);
    Pack<T, V> tile[kPacks];
    each_pack<kPacks>(first, step, packs, [&](int u, int64_t at) { tile[u] = x[at]; });
    if (args.positions != nullptr) {
        // Of 32 bits, for there are fewer than 2^31 rows: a remainder of 64 is a branch and a hundred instructions more.
        const unsigned place = unsigned(row) % unsigned(args.count);
        const auto* beside = static_cast<const Pack<T, V>*>(args.positions) + int64_t{place} * packs;
        each_pack<kPacks>(first, step, packs, [&](int u, int64_t at) { tile[u] = total(tile[u], beside[at]); });
    }
    float sum = 0.0f;
    each_pack<kPacks>(first, step, packs, [&](int u, int64_t at) {
        if (!known) tile[u] = filled<T, V>(NAN);
        embedded[at] = tile[u];
        const Pack<float, V> wide = widened(tile[u]);
        #pragma unroll
        for (int k = 0; k < V; ++k) sum += wide.v[k];
    });
    const float count = float(args.length);
    const float mean = kCentred ? block_reduce<Sum>(sum, of_mean) / count : 0.0f;
    float squares = 0.0f;
    each_pack<kPacks>(first, step, packs, [&](int u, int64_t) {
        const Pack<float, V> wide = widened(tile[u]);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float deviation = wide.v[k] - mean;
            squares = fmaf(deviation, deviation, squares);
        }
    });
    const float rstd = 1.0f / sqrtf(block_reduce<Sum>(squares, of_variance) / count + float(args.eps));
    const auto* weight = static_cast<const Pack<P, V>*>(args.weight);
    const auto* bias = static_cast<const Pack<P, V>*>(args.bias);
    each_pack<kPacks>(first, step, packs, [&](int u, int64_t at) {
        Affine<P, V> affine;
        affine.load(weight, bias, at);
        y[at] = affine.of(tile[u], mean, rstd);
    });
    if (args.rstd != nullptr && threadIdx.x == 0) {
        if (kCentred) args.mean[row] = mean;
        args.rstd[row] = rstd;
    }
}

template <bool kCentred, typename T, typename P, int V>
cudaError_t launch(const Forward& args) {
    constexpr int kPacks = V == 1 ? kScalarPacks : kVectorPacks;
    const int64_t packs = args.length / V;
    const dim3 block = rows_block(block_for(packs, kPacks));
    norms<kCentred, T, P, V, kPacks><<<rows_grid(args.rows, block), block, 0, args.stream>>>(args, int(packs));
    return cudaGetLastError();
}

template <bool kCentred>
cudaError_t launch_as(const Forward& args) {
    return with_dtypes(args.dtype, args.param_dtype, [&](auto element, auto parameter) {
        using T = decltype(element);
        using P = decltype(parameter);
        const bool vectors =
            in_vectors<T, P>(args.length, args.table, args.positions, args.y, args.weight, args.bias);
        if (vectors && aligned(args.embedded)) return launch<kCentred, T, P, kVector<T>>(args);
        return launch<kCentred, T, P, 1>(args);
    });
}

inline cudaError_t forward(const Forward& args) {
    if (args.rows > kMaxGrid || args.length > kMaxLength) return cudaErrorInvalidValue;
    return args.centred ? launch_as<true>(args) : launch_as<false>(args);
}

}  // namespace kernelwright::embedding_norm
