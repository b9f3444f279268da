// LayerNorm and RMSNorm of a sum, backward: every gradient from one read of dy, the sum and its own gradient.
//
// As row_norm_backward.cuh: a GPU's worth of blocks share the rows, each keeps the parameters' sums in registers while
// it computes dx, and the next row is on its way meanwhile. What adds to dx is asked for before the row's sums are
// known, so that it comes while the block adds them up. No atomics: runs agree to the bit.
#pragma once

#include "add_norm.cuh"
#include "row_norm_backward.cuh"

namespace kernelwright {

// Of each of three tensors, in one thread's registers; a row of float32 takes twice as many.
template <typename T>
constexpr int kAddValues = sizeof(T) == sizeof(float) ? kShareValues / 2 : kShareValues;

template <bool kCentred, typename T, int V>
struct AddShare {
    static constexpr int kPacks = kAddValues<T> / V;
    // The packs of a warp lie together, so that one address serves all of a thread's.
    __device__ __forceinline__ static int first() {
        return int(threadIdx.x) / kWarp * (kWarp * kPacks) + int(threadIdx.x) % kWarp;
    }

    Pack<T, V> dy[kPacks], x[kPacks];
    float mean, rstd;

    __device__ __forceinline__ void load(
        const Pack<T, V>* all_dy, const Pack<T, V>* all_x, const float* means, const float* rstds, int64_t row,
        int packs) {
        all_dy += row * packs;
        all_x += row * packs;
        each_pack<kPacks>(first(), kWarp, packs, [&](int u, int64_t at) {
            dy[u] = all_dy[at];
            x[u] = all_x[at];
        });
        mean = kCentred ? means[row] : 0.0f;
        rstd = rstds[row];
    }

    __device__ __forceinline__ float gradient(int u, int k) const { return to_float(dy[u].v[k]); }
    __device__ __forceinline__ float normal(int u, int k) const { return (to_float(x[u].v[k]) - mean) * rstd; }
};

// Partials, unless null, are [2][blocks][packs]: the sums of dy * xhat, then those of dy.
template <bool kCentred, typename T, typename P, int V>
__global__ void __launch_bounds__(kShareThreads) add_norm_backward(
    const Pack<T, V>* __restrict__ dy, const Pack<T, V>* __restrict__ dadded, const Pack<T, V>* __restrict__ x,
    const Pack<P, V>* __restrict__ weight, const float* __restrict__ means, const float* __restrict__ rstds,
    Pack<T, V>* __restrict__ dx, Pack<float, V>* __restrict__ partials, int64_t rows, int packs) {
    using Here = AddShare<kCentred, T, V>;
    constexpr int kPacks = Here::kPacks;
    const int first = Here::first();
    // By turns: a warp may be in the next row before another has read this one's sums.
    __shared__ Pair of_warp[2][kMaxWarps];
    Pack<P, V> scale[kPacks];
    Pack<float, V> of_weight[kPacks], of_bias[kPacks];
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        for (int k = 0; k < V; ++k) {
            scale[u].v[k] = from_float<P>(1.0f);
            of_weight[u].v[k] = of_bias[u].v[k] = 0.0f;
        }
        if (weight != nullptr && first + u * kWarp < packs) scale[u] = weight[first + u * kWarp];
    }
    const float share = 1.0f / float(packs * V);
    Here here, next;
    here.load(dy, x, means, rstds, blockIdx.x, packs);
    int turn = 0;
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        Pack<T, V> own[kPacks];
        if (dx != nullptr && dadded != nullptr) {
            each_pack<kPacks>(first, kWarp, packs, [&](int u, int64_t at) { own[u] = dadded[row * packs + at]; });
        }
        if (row + gridDim.x < rows) next.load(dy, x, means, rstds, row + gridDim.x, packs);
        Pair sum = {0.0f, 0.0f};
        each_pack<kPacks>(first, kWarp, packs, [&](int u, int64_t) {
            for (int k = 0; k < V; ++k) {
                const float of_normal = here.gradient(u, k) * here.normal(u, k);
                of_weight[u].v[k] += of_normal;
                if (kCentred) of_bias[u].v[k] += here.gradient(u, k);
                if (kCentred) sum.plain += here.gradient(u, k) * to_float(scale[u].v[k]);
                sum.with_normal += of_normal * to_float(scale[u].v[k]);
            }
        });
        if (dx != nullptr) {
            sum = block_sum(sum, of_warp[turn]);
            sum.plain *= share;
            sum.with_normal *= share;
            each_pack<kPacks>(first, kWarp, packs, [&](int u, int64_t at) {
                Pack<T, V> made;
                for (int k = 0; k < V; ++k) {
                    const float g = here.gradient(u, k) * to_float(scale[u].v[k]) - sum.plain;
                    const float through = here.rstd * (g - here.normal(u, k) * sum.with_normal);
                    made.v[k] = from_float<T>(dadded == nullptr ? through : through + to_float(own[u].v[k]));
                }
                dx[row * packs + at] = made;
            });
        }
        here = next;
        turn ^= 1;
    }
    if (partials == nullptr) return;
    each_pack<kPacks>(first, kWarp, packs, [&](int u, int64_t at) {
        partials[int64_t(blockIdx.x) * packs + at] = of_weight[u];
        if (kCentred) partials[(int64_t(gridDim.x) + blockIdx.x) * packs + at] = of_bias[u];
    });
}

inline RowBackward of_sum(const AddRowBackward& args) {
    return {args.dy, args.added, args.weight, args.mean, args.rstd, args.dx, args.dweight, args.dbias,
            args.workspace, args.rows, args.length, args.dtype, args.param_dtype, args.stream, args.device};
}

// Elements of a row that the registers of a block hold.
inline int64_t add_values(const AddRowBackward& args) {
    return args.dtype == kFloat32 ? kAddValues<float> : kAddValues<__half>;
}

inline bool add_row_is_shared(const AddRowBackward& args) { return args.length <= add_values(args) * kShareThreads; }

// Rows of partial sums.
inline int64_t add_parts(const AddRowBackward& args) {
    if (!add_row_is_shared(args)) return long_chunks(args.rows);
    int multiprocessors = 0;
    if (cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, int(args.device)) != cudaSuccess) {
        multiprocessors = 1;  // the launch will say what is wrong
    }
    return std::min<int64_t>(args.rows, multiprocessors * (kShareThreads / block_for(args.length, add_values(args))));
}

inline int64_t add_row_backward_workspace(const AddRowBackward& args) {
    return wants_parameters(of_sum(args)) ? 2 * add_parts(args) * args.length * int64_t(sizeof(float)) : 0;
}

template <bool kCentred, typename T, typename P, int V>
cudaError_t launch_add_rows(const AddRowBackward& args) {
    const auto* dy = static_cast<const Pack<T, V>*>(args.dy);
    const auto* dadded = static_cast<const Pack<T, V>*>(args.dadded);
    const auto* x = static_cast<const Pack<T, V>*>(args.added);
    const auto* weight = static_cast<const Pack<P, V>*>(args.weight);
    auto* dx = static_cast<Pack<T, V>*>(args.dx);
    const int64_t packs = args.length / V;
    if (add_row_is_shared(args)) {
        auto* partials = wants_parameters(of_sum(args)) ? static_cast<Pack<float, V>*>(args.workspace) : nullptr;
        add_norm_backward<kCentred, T, P, V>
            <<<unsigned(add_parts(args)), block_for(args.length, kAddValues<T>), 0, args.stream>>>(
                dy, dadded, x, weight, args.mean, args.rstd, dx, partials, args.rows, int(packs));
    } else if (dx != nullptr) {
        return launch_long_input<kCentred, true, T, P, V>(of_sum(args), args.dadded);
    }
    return cudaGetLastError();
}

template <bool kCentred, typename T, typename P>
cudaError_t launch_add_parameters(const AddRowBackward& args) {
    const int64_t columns = (args.length + kWarp - 1) / kWarp;
    if (columns > kMaxGrid) return cudaErrorInvalidValue;
    if (!add_row_is_shared(args)) {
        const cudaError_t done = launch_long_parameters<kCentred, T>(of_sum(args));
        if (done != cudaSuccess) return done;
    }
    const unsigned parameters = args.dbias == nullptr ? 1 : 2;
    parameter_sums<P><<<dim3(unsigned(columns), parameters), dim3(kWarp, kSumLanes), 0, args.stream>>>(
        static_cast<const float*>(args.workspace), static_cast<P*>(args.dweight), static_cast<P*>(args.dbias),
        add_parts(args), args.length);
    return cudaGetLastError();
}

template <bool kCentred>
cudaError_t add_row_backward(const AddRowBackward& args) {
    if (args.rows > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtypes(args.dtype, args.param_dtype, [&](auto element, auto parameter) {
        using T = decltype(element);
        using P = decltype(parameter);
        const bool rows = in_vectors<T, P>(args.length, args.dy, args.added, args.dx, args.weight, nullptr);
        const bool vectors = rows && aligned(args.dadded);
        const cudaError_t done = vectors ? launch_add_rows<kCentred, T, P, kVector<T>>(args)
                                         : launch_add_rows<kCentred, T, P, 1>(args);
        if (done != cudaSuccess || !wants_parameters(of_sum(args))) return done;
        return launch_add_parameters<kCentred, T, P>(args);
    });
}

}  // namespace kernelwright
