// LayerNorm and RMSNorm, backward, for rows that a block's registers do not hold: dx by one kernel, which reads the
// row twice; partial sums of the parameters' gradients over chunks of rows by another.
#pragma once

#include "row_norm.cuh"

namespace kernelwright {

constexpr int kLongPacks = 2;  // of each of dy and x, in one thread's registers
constexpr int64_t kChunkRows = 32;
constexpr int64_t kMaxChunks = 128;
constexpr int kColumnThreads = 256;

// One row's gradient: dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * weight.
template <bool kCentred, typename T, typename P, int V>
struct RowGradient {
    const Pack<P, V>* weight;
    float mean, rstd;

    __device__ __forceinline__ void terms(
        const Pack<T, V>& dy, const Pack<T, V>& x, int64_t at, float* g, float* normal) const {
        Pack<P, V> scale;
        if (weight != nullptr) scale = weight[at];
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            g[k] = to_float(dy.v[k]);
            if (weight != nullptr) g[k] *= to_float(scale.v[k]);
            normal[k] = (to_float(x.v[k]) - mean) * rstd;
        }
    }

    __device__ __forceinline__ void sums(
        const Pack<T, V>& dy, const Pack<T, V>& x, int64_t at, float* plain, float* with_normal) const {
        float g[V], normal[V];
        terms(dy, x, at, g, normal);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            *plain += g[k];
            *with_normal += g[k] * normal[k];
        }
    }

    __device__ __forceinline__ Pack<T, V> of_input(
        const Pack<T, V>& dy, const Pack<T, V>& x, int64_t at, float plain, float with_normal) const {
        float g[V], normal[V];
        terms(dy, x, at, g, normal);
        Pack<T, V> dx;
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float centred = kCentred ? g[k] - plain : g[k];
            dx.v[k] = from_float<T>(rstd * (centred - normal[k] * with_normal));
        }
        return dx;
    }
};

template <bool kCentred, typename T, typename P, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) row_norm_backward_long(
    const Pack<T, V>* __restrict__ dy, const Pack<T, V>* __restrict__ x, const Pack<P, V>* __restrict__ weight,
    const float* __restrict__ means, const float* __restrict__ rstds, Pack<T, V>* __restrict__ dx,
    int64_t packs) {
    __shared__ float of_plain[kMaxWarps], of_normal[kMaxWarps];
    const int64_t row = blockIdx.x;
    const RowGradient<kCentred, T, P, V> gradient = {weight, kCentred ? means[row] : 0.0f, rstds[row]};
    dy += row * packs;
    x += row * packs;
    dx += row * packs;
    // The first packs of the row stay in registers; of a longer one the rest is read again.
    Pack<T, V> dy_tile[kLongPacks], x_tile[kLongPacks];
    float plain = 0.0f, with_normal = 0.0f;
    #pragma unroll
    for (int u = 0; u < kLongPacks; ++u) {
        const int64_t at = threadIdx.x + u * int64_t(blockDim.x);
        if (at < packs) {
            dy_tile[u] = dy[at];
            x_tile[u] = x[at];
        }
    }
    #pragma unroll
    for (int u = 0; u < kLongPacks; ++u) {
        const int64_t at = threadIdx.x + u * int64_t(blockDim.x);
        if (at < packs) gradient.sums(dy_tile[u], x_tile[u], at, &plain, &with_normal);
    }
    const int64_t rest = threadIdx.x + kLongPacks * int64_t(blockDim.x);
    for (int64_t at = rest; at < packs; at += blockDim.x) {
        gradient.sums(dy[at], x[at], at, &plain, &with_normal);
    }
    const float count = float(packs * V);
    if (kCentred) plain = block_reduce<Sum>(plain, of_plain) / count;
    with_normal = block_reduce<Sum>(with_normal, of_normal) / count;
    #pragma unroll
    for (int u = 0; u < kLongPacks; ++u) {
        const int64_t at = threadIdx.x + u * int64_t(blockDim.x);
        if (at < packs) dx[at] = gradient.of_input(dy_tile[u], x_tile[u], at, plain, with_normal);
    }
    for (int64_t at = rest; at < packs; at += blockDim.x) {
        dx[at] = gradient.of_input(dy[at], x[at], at, plain, with_normal);
    }
}

// A thread adds up one column of a chunk of rows; partials are [2][chunks][length], weight's first.
template <bool kCentred, typename T>
__global__ void parameter_partials(
    const T* __restrict__ dy, const T* __restrict__ x, const float* __restrict__ means,
    const float* __restrict__ rstds, float* __restrict__ partials, int64_t rows, int64_t length,
    int64_t chunk_rows) {
    const int64_t column = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column >= length) return;
    const int64_t begin = blockIdx.y * chunk_rows;
    const int64_t end = min(begin + chunk_rows, rows);
    float of_weight = 0.0f, of_bias = 0.0f;
    #pragma unroll 4
    for (int64_t row = begin; row < end; ++row) {
        const float g = to_float(dy[row * length + column]);
        const float mean = kCentred ? means[row] : 0.0f;
        of_weight += g * ((to_float(x[row * length + column]) - mean) * rstds[row]);
        of_bias += g;
    }
    partials[blockIdx.y * length + column] = of_weight;
    partials[(gridDim.y + blockIdx.y) * length + column] = of_bias;
}

inline int64_t long_chunks(int64_t rows) {
    return std::max<int64_t>(1, std::min<int64_t>((rows + kChunkRows - 1) / kChunkRows, kMaxChunks));
}

template <bool kCentred, typename T, typename P, int V>
cudaError_t launch_long_input(const RowBackward& args) {
    const int64_t packs = args.length / V;
    row_norm_backward_long<kCentred, T, P, V><<<unsigned(args.rows), block_for(packs, kLongPacks), 0, args.stream>>>(
        static_cast<const Pack<T, V>*>(args.dy), static_cast<const Pack<T, V>*>(args.x),
        static_cast<const Pack<P, V>*>(args.weight), args.mean, args.rstd, static_cast<Pack<T, V>*>(args.dx), packs);
    return cudaGetLastError();
}

template <bool kCentred, typename T>
cudaError_t launch_long_parameters(const RowBackward& args) {
    const int64_t columns = (args.length + kColumnThreads - 1) / kColumnThreads;
    const int64_t chunks = long_chunks(args.rows);
    const int64_t chunk_rows = (args.rows + chunks - 1) / chunks;
    if (columns > kMaxGrid) return cudaErrorInvalidValue;
    parameter_partials<kCentred, T><<<dim3(unsigned(columns), unsigned(chunks)), kColumnThreads, 0, args.stream>>>(
        static_cast<const T*>(args.dy), static_cast<const T*>(args.x), args.mean, args.rstd,
        static_cast<float*>(args.workspace), args.rows, args.length, chunk_rows);
    return cudaGetLastError();
}

}  // namespace kernelwright
