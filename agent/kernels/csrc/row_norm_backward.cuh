// LayerNorm and RMSNorm, backward: every gradient from one read of dy and x.
//
// The rows are shared out among as many blocks as the GPU holds at once. A thread keeps to its columns: of a row in its
// registers it computes dx and adds what the row gives to the parameters' gradients, while the next row is on its way.
// Every block leaves one row of partial sums, and another kernel adds those up in their order; no atomics, so that
// runs agree to the bit. Rows that do not fit go by row_norm_backward_long.cuh.
#pragma once

#include "row_norm_backward_long.cuh"

namespace kernelwright {

constexpr int kShareValues = 16;    // of each of dy and x, in one thread's registers
constexpr int kShareThreads = 512;  // of an SM: with 128 registers each
constexpr int kSumLanes = 32;       // threads that add up the partial sums of a column

// One thread's part of a row; nothing where the row has ended. The packs of a warp lie together, so that one address
// serves all of a thread's.
template <bool kCentred, typename T, int V>
struct Share {
    static constexpr int kPacks = kShareValues / V;
    __device__ __forceinline__ static int first() {
        return int(threadIdx.x) / kWarp * (kWarp * kPacks) + int(threadIdx.x) % kWarp;
    }

    Pack<T, V> dy[kPacks], x[kPacks];
    float mean, rstd;

    __device__ __forceinline__ void load(
        const Pack<T, V>* all_dy, const Pack<T, V>* all_x, const float* means, const float* rstds, int64_t row,
        int packs) {
        all_dy += row * packs + first();
        all_x += row * packs + first();
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            if (first() + u * kWarp < packs) {
                dy[u] = all_dy[u * kWarp];
                x[u] = all_x[u * kWarp];
            }
        }
        mean = kCentred ? means[row] : 0.0f;
        rstd = rstds[row];
    }

    __device__ __forceinline__ float gradient(int u, int k) const { return to_float(dy[u].v[k]); }
    __device__ __forceinline__ float normal(int u, int k) const { return (to_float(x[u].v[k]) - mean) * rstd; }
};

struct Pair {
    float plain, with_normal;
};

__device__ __forceinline__ Pair warp_sum(Pair mine) {
    #pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        mine.plain += __shfl_xor_sync(0xffffffff, mine.plain, offset);
        mine.with_normal += __shfl_xor_sync(0xffffffff, mine.with_normal, offset);
    }
    return mine;
}

__device__ __forceinline__ Pair block_sum(Pair mine, Pair* of_warp) {
    mine = warp_sum(mine);
    const int warps = int(blockDim.x) / kWarp;
    if (warps == 1) return mine;
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
    __syncthreads();
    const int lane = int(threadIdx.x) % kWarp;
    return warp_sum(lane < warps ? of_warp[lane] : Pair{0.0f, 0.0f});
}

// Partials, unless null, are [2][blocks][packs]: the sums of dy * xhat, then those of dy.
template <bool kCentred, typename T, typename P, int V>
__global__ void __launch_bounds__(kShareThreads) row_norm_backward(
    const Pack<T, V>* __restrict__ dy, const Pack<T, V>* __restrict__ x, const Pack<P, V>* __restrict__ weight,
    const float* __restrict__ means, const float* __restrict__ rstds, Pack<T, V>* __restrict__ dx,
    Pack<float, V>* __restrict__ partials, int64_t rows, int packs) {
    using Here = Share<kCentred, T, V>;
    const int first = Here::first();
    // By turns: a warp may be in the next row before another has read this one's sums.
    __shared__ Pair of_warp[2][kMaxWarps];
    Pack<P, V> scale[Here::kPacks];
    Pack<float, V> of_weight[Here::kPacks], of_bias[Here::kPacks];
    #pragma unroll
    for (int u = 0; u < Here::kPacks; ++u) {
        const int at = first + u * kWarp;
        for (int k = 0; k < V; ++k) {
            scale[u].v[k] = from_float<P>(1.0f);
            of_weight[u].v[k] = of_bias[u].v[k] = 0.0f;
        }
        if (weight != nullptr && at < packs) scale[u] = weight[at];
    }
    const float share = 1.0f / float(packs * V);
    Here here, next;
    here.load(dy, x, means, rstds, blockIdx.x, packs);
    int turn = 0;
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        if (row + gridDim.x < rows) next.load(dy, x, means, rstds, row + gridDim.x, packs);
        Pair sum = {0.0f, 0.0f};
        #pragma unroll
        for (int u = 0; u < Here::kPacks; ++u) {
            if (first + u * kWarp >= packs) continue;
            for (int k = 0; k < V; ++k) {
                const float of_normal = here.gradient(u, k) * here.normal(u, k);
                of_weight[u].v[k] += of_normal;
                if (kCentred) of_bias[u].v[k] += here.gradient(u, k);
                if (kCentred) sum.plain += here.gradient(u, k) * to_float(scale[u].v[k]);
                sum.with_normal += of_normal * to_float(scale[u].v[k]);
            }
        }
        if (dx != nullptr) {
            sum = block_sum(sum, of_warp[turn]);
            sum.plain *= share;
            sum.with_normal *= share;
            #pragma unroll
            for (int u = 0; u < Here::kPacks; ++u) {
                const int at = first + u * kWarp;
                if (at >= packs) continue;
                Pack<T, V> made;
                for (int k = 0; k < V; ++k) {
                    const float g = here.gradient(u, k) * to_float(scale[u].v[k]) - sum.plain;
                    made.v[k] = from_float<T>(here.rstd * (g - here.normal(u, k) * sum.with_normal));
                }
                dx[row * packs + at] = made;
            }
        }
        here = next;
        turn ^= 1;
    }
    if (partials == nullptr) return;
    #pragma unroll
    for (int u = 0; u < Here::kPacks; ++u) {
        const int at = first + u * kWarp;
        if (at >= packs) continue;
        partials[int64_t(blockIdx.x) * packs + at] = of_weight[u];
        if (kCentred) partials[(int64_t(gridDim.x) + blockIdx.x) * packs + at] = of_bias[u];
    }
}

// Blocks of (kWarp columns, kSumLanes); y chooses the parameter, the weight first. Partials are [2][parts][length].
template <typename P>
__global__ void __launch_bounds__(kWarp* kSumLanes) parameter_sums(
    const float* __restrict__ partials, P* __restrict__ dweight, P* __restrict__ dbias, int64_t parts,
    int64_t length) {
    __shared__ float of_lane[kSumLanes][kWarp];
    P* gradient = blockIdx.y == 0 ? dweight : dbias;
    if (gradient == nullptr) return;
    const int64_t column = int64_t(blockIdx.x) * kWarp + threadIdx.x;
    float sum = 0.0f;
    if (column < length) {
        partials += blockIdx.y * parts * length + column;
        #pragma unroll 4
        for (int64_t part = threadIdx.y; part < parts; part += kSumLanes) sum += partials[part * length];
    }
    of_lane[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || column >= length) return;
    for (int lane = 1; lane < kSumLanes; ++lane) sum += of_lane[lane][threadIdx.x];
    gradient[column] = from_float<P>(sum);
}

inline bool row_is_shared(const RowBackward& args) { return args.length <= kShareValues * kShareThreads; }

inline bool wants_parameters(const RowBackward& args) { return args.dweight != nullptr || args.dbias != nullptr; }

// Rows of partial sums.
inline int64_t parts_of(const RowBackward& args) {
    if (!row_is_shared(args)) return long_chunks(args.rows);
    int multiprocessors = 0;
    if (cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, int(args.device)) != cudaSuccess) {
        multiprocessors = 1;  // the launch will say what is wrong
    }
    return std::min<int64_t>(args.rows, multiprocessors * (kShareThreads / block_for(args.length, kShareValues)));
}

inline int64_t row_backward_workspace(const RowBackward& args) {
    return wants_parameters(args) ? 2 * parts_of(args) * args.length * int64_t(sizeof(float)) : 0;
}

template <bool kCentred, typename T, typename P, int V>
cudaError_t launch_rows(const RowBackward& args) {
    if (!row_is_shared(args)) return args.dx == nullptr ? cudaSuccess : launch_long_input<kCentred, false, T, P, V>(args, nullptr);
    row_norm_backward<kCentred, T, P, V>
        <<<unsigned(parts_of(args)), block_for(args.length, kShareValues), 0, args.stream>>>(
            static_cast<const Pack<T, V>*>(args.dy), static_cast<const Pack<T, V>*>(args.x),
            static_cast<const Pack<P, V>*>(args.weight), args.mean, args.rstd, static_cast<Pack<T, V>*>(args.dx),
            wants_parameters(args) ? static_cast<Pack<float, V>*>(args.workspace) : nullptr, args.rows,
            int(args.length / V));
    return cudaGetLastError();
}

template <typename P>
cudaError_t launch_parameter_sums(const RowBackward& args) {
    const int64_t columns = (args.length + kWarp - 1) / kWarp;
    const unsigned parameters = args.dbias == nullptr ? 1 : 2;
    if (columns > kMaxGrid) return cudaErrorInvalidValue;
    parameter_sums<P><<<dim3(unsigned(columns), parameters), dim3(kWarp, kSumLanes), 0, args.stream>>>(
        static_cast<const float*>(args.workspace), static_cast<P*>(args.dweight), static_cast<P*>(args.dbias),
        parts_of(args), args.length);
    return cudaGetLastError();
}

template <bool kCentred>
cudaError_t row_backward(const RowBackward& args) {
    if (args.rows > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtypes(args.dtype, args.param_dtype, [&](auto element, auto parameter) {
        using T = decltype(element);
        using P = decltype(parameter);
        const bool vectors = in_vectors<T, P>(args.length, args.dy, args.x, args.dx, args.weight, nullptr);
        cudaError_t done = vectors ? launch_rows<kCentred, T, P, kVector<T>>(args) : launch_rows<kCentred, T, P, 1>(args);
        if (done != cudaSuccess || !wants_parameters(args)) return done;
        if (!row_is_shared(args)) done = launch_long_parameters<kCentred, T>(args);
        return done == cudaSuccess ? launch_parameter_sums<P>(args) : done;
    });
}

}  // namespace kernelwright
