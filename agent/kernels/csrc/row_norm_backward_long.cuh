// LayerNorm and RMSNorm, backward, of a row by a block, which reads again what its registers do not hold; and partial
// sums of the parameters' gradients over chunks of rows.
#pragma once

#include "add_norm.cuh"

namespace kernelwright {

constexpr int kLongPacks = 2;  // of each tensor, in one thread's registers
constexpr int64_t kChunkRows = 32;
constexpr int64_t kMaxChunks = 128;
constexpr int kColumnThreads = 128;
constexpr int kColumnBytes = 8;  // of neighbouring columns, in a thread

// One row's gradient: dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * weight.
// Packs are taken by value: through a reference half precision would be loaded element by element.
template <bool kCentred, typename T, typename P, int V>
struct RowGradient {
    const void* weight;  // of P, or null
    float mean, rstd;

    __device__ __forceinline__ void terms(
        Pack<T, V> dy, Pack<T, V> x, int64_t at, float* g, float* normal) const {
        const Pack<float, V> scale = weight == nullptr ? filled<float, V>(1.0f) : parameter_pack<P, V>(weight, at);
        const Pack<float, V> given = widened(dy), value = widened(x);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            g[k] = given.v[k] * scale.v[k];
            normal[k] = (value.v[k] - mean) * rstd;
        }
    }

    __device__ __forceinline__ void sums(
        Pack<T, V> dy, Pack<T, V> x, int64_t at, float* plain, float* with_normal) const {
        float g[V], normal[V];
        terms(dy, x, at, g, normal);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            *plain += g[k];
            *with_normal += g[k] * normal[k];
        }
    }

    // `own`, the sum's own gradient, is added where there is one.
    __device__ __forceinline__ Pack<T, V> of_input(
        Pack<T, V> dy, Pack<T, V> x, const Pack<T, V>* own, int64_t at, float plain,
        float with_normal) const {
        float g[V], normal[V];
        terms(dy, x, at, g, normal);
        Pack<float, V> dx;
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float centred = kCentred ? g[k] - plain : g[k];
            dx.v[k] = rstd * (centred - normal[k] * with_normal);
        }
        if (own != nullptr) {
            const Pack<T, V> stored = *own;
            const Pack<float, V> more = widened(stored);
            #pragma unroll
            for (int k = 0; k < V; ++k) dx.v[k] += more.v[k];
        }
        return narrowed<T>(dx);
    }
};

// dx of a row, by a block whose threads have kUnder packs under way of what their registers do not hold. `dadded`, the
// gradient of a sum that is a result too, is null where kSum is false, and may be otherwise.
template <int kUnder, bool kCentred, bool kSum, typename P, typename T, int V>
__device__ __forceinline__ void gradient_of_row(
    int64_t row, const Pack<T, V>* __restrict__ dy, const Pack<T, V>* __restrict__ dadded, const Pack<T, V>* __restrict__ x,
    const void* __restrict__ weight, const float* __restrict__ means, const float* __restrict__ rstds,
    Pack<T, V>* __restrict__ dx, int64_t packs) {
    __shared__ float of_plain[kMaxWarps], of_normal[kMaxWarps];
    const int64_t step = blockDim.x;
    const RowGradient<kCentred, T, P, V> gradient = {weight, kCentred ? means[row] : 0.0f, rstds[row]};
    const bool adds = kSum && dadded != nullptr;
    dy += row * packs;
    x += row * packs;
    dx += row * packs;
    if (adds) dadded += row * packs;
    // The first packs of the row stay in registers; of a longer one the rest is read again.
    Pack<T, V> dy_tile[kLongPacks], x_tile[kLongPacks], own[kLongPacks];
    float plain = 0.0f, with_normal = 0.0f;
    each_pack<kLongPacks>(int64_t{threadIdx.x}, step, packs, [&](int u, int64_t at) {
        dy_tile[u] = dy[at];
        x_tile[u] = x[at];
    });
    if (adds) {  // comes while the block adds up
        each_pack<kLongPacks>(int64_t{threadIdx.x}, step, packs, [&](int u, int64_t at) { own[u] = dadded[at]; });
    }
    each_pack<kLongPacks>(int64_t{threadIdx.x}, step, packs, [&](int u, int64_t at) {
        gradient.sums(dy_tile[u], x_tile[u], at, &plain, &with_normal);
        keep_as_stored(dy_tile[u]);
        keep_as_stored(x_tile[u]);
    });
    const int64_t rest = threadIdx.x + kLongPacks * step;
    #pragma unroll kUnder
    for (int64_t at = rest; at < packs; at += step) gradient.sums(dy[at], x[at], at, &plain, &with_normal);
    const float count = float(packs * V);
    if (kCentred) plain = block_reduce<Sum>(plain, of_plain) / count;
    with_normal = block_reduce<Sum>(with_normal, of_normal) / count;
    each_pack<kLongPacks>(int64_t{threadIdx.x}, step, packs, [&](int u, int64_t at) {
        dx[at] = gradient.of_input(dy_tile[u], x_tile[u], adds ? &own[u] : nullptr, at, plain, with_normal);
    });
    #pragma unroll kUnder
    for (int64_t at = rest; at < packs; at += step) {
        if (adds) own[0] = dadded[at];
        dx[at] = gradient.of_input(dy[at], x[at], adds ? &own[0] : nullptr, at, plain, with_normal);
    }
}

// A thread adds up V columns of a chunk of rows; partials are [2][chunks][packs], weight's first.
template <bool kCentred, typename T, int V>
__global__ void __launch_bounds__(kColumnThreads) parameter_partials(
    const Pack<T, V>* __restrict__ dy, const Pack<T, V>* __restrict__ x, const float* __restrict__ means,
    const float* __restrict__ rstds, Pack<float, V>* __restrict__ partials, int64_t rows, int64_t packs,
    int64_t chunk_rows) {
    const int64_t column = int64_t(blockIdx.x) * kColumnThreads + threadIdx.x;
    if (column >= packs) return;
    const int64_t begin = blockIdx.y * chunk_rows;
    const int64_t end = min(begin + chunk_rows, rows);
    Pack<float, V> of_weight = {}, of_bias = {};
    #pragma unroll 4
    for (int64_t row = begin; row < end; ++row) {
        const Pack<T, V> grown = dy[row * packs + column], value = x[row * packs + column];
        const Pack<float, V> g = widened(grown), wide = widened(value);
        const float mean = kCentred ? means[row] : 0.0f, rstd = rstds[row];
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            of_weight.v[k] += g.v[k] * ((wide.v[k] - mean) * rstd);
            of_bias.v[k] += g.v[k];
        }
    }
    partials[blockIdx.y * packs + column] = of_weight;
    partials[(gridDim.y + blockIdx.y) * packs + column] = of_bias;
}

inline bool wants_parameters(const AddRowBackward& args) { return args.dweight != nullptr || args.dbias != nullptr; }

inline int64_t long_chunks(int64_t rows) {
    return std::max<int64_t>(1, std::min<int64_t>((rows + kChunkRows - 1) / kChunkRows, kMaxChunks));
}

template <bool kCentred, typename T, int V>
cudaError_t launch_long_columns(const AddRowBackward& args) {
    const int64_t packs = args.length / V, columns = (packs + kColumnThreads - 1) / kColumnThreads;
    const int64_t chunks = long_chunks(args.rows);
    const int64_t chunk_rows = (args.rows + chunks - 1) / chunks;
    if (columns > kMaxGrid) return cudaErrorInvalidValue;
    parameter_partials<kCentred, T, V><<<dim3(unsigned(columns), unsigned(chunks)), kColumnThreads, 0, args.stream>>>(
        static_cast<const Pack<T, V>*>(args.dy), static_cast<const Pack<T, V>*>(args.added), args.mean, args.rstd,
        static_cast<Pack<float, V>*>(args.workspace), args.rows, packs, chunk_rows);
    return cudaGetLastError();
}

template <bool kCentred, typename T>
cudaError_t launch_long_parameters(const AddRowBackward& args) {
    constexpr int V = kColumnBytes / int(sizeof(T));
    const bool vectors = args.length % V == 0 && aligned(args.dy) && aligned(args.added);
    return vectors ? launch_long_columns<kCentred, T, V>(args) : launch_long_columns<kCentred, T, 1>(args);
}

}  // namespace kernelwright
