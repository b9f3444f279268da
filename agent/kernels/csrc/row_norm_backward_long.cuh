// LayerNorm and RMSNorm backward with a block per row, which rereads what its registers do not hold. Also the partial
// sums of the parameters' gradients over chunks of rows.
#pragma once

#include "add_norm.cuh"
#include "row_teams.cuh"

namespace kernelwright {

constexpr int kLongPacks = 4;  // packs of each tensor in a thread's registers
constexpr int64_t kChunkRows = 32;
constexpr int64_t kMaxChunks = 128;
constexpr int kColumnThreads = 128;
constexpr int kColumnBytes = 8;  // bytes of a row that a thread handles: neighbouring columns

// Returns pack `at` of the weight in its storage type, or ones if it is null.
template <typename P, int V>
__device__ __forceinline__ Pack<P, V> scale_at(const void* weight, int64_t at) {
    constexpr int kEach = V < kVector<P> ? V : kVector<P>;
    Pack<P, V> scale = filled<P, V>(1.0f);
    if (weight != nullptr) {
        #pragma unroll
        for (int k = 0; k < V; k += kEach) {
            const Pack<P, kEach> some = static_cast<const Pack<P, kEach>*>(weight)[(at * V + k) / kEach];
            memcpy(&scale.v[k], &some, sizeof some);
        }
    }
    return scale;
}

// Gradient of one row: dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * weight.
// Packs are passed by value: through a reference, half precision would be loaded element by element.
template <bool kCentred, typename T, int V>
struct RowGradient {
    float mean, rstd;

    template <typename P>
    __device__ __forceinline__ void terms(
        Pack<T, V> dy, Pack<T, V> x, Pack<P, V> weight, float* g, float* normal) const {
        const Pack<float, V> given = widened(dy), value = widened(x), scale = widened(weight);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            g[k] = given.v[k] * scale.v[k];
            normal[k] = (value.v[k] - mean) * rstd;
        }
    }

    template <typename P>
    __device__ __forceinline__ void sums(Pack<T, V> dy, Pack<T, V> x, Pack<P, V> weight, RowSums* sums) const {
        float g[V], normal[V];
        terms(dy, x, weight, g, normal);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            if (kCentred) sums->plain += g[k];
            sums->with_normal = fmaf(g[k], normal[k], sums->with_normal);
        }
    }

    // `own` is the gradient of the output x + residual, or null.
    template <typename P>
    __device__ __forceinline__ Pack<T, V> of_input(
        Pack<T, V> dy, Pack<T, V> x, Pack<P, V> weight, const Pack<T, V>* own, float plain, float with_normal) const {
        Pack<float, V> g, normal;
        terms(dy, x, weight, g.v, normal.v);
        return of_terms(g, normal, own, plain, with_normal);
    }

    __device__ __forceinline__ Pack<T, V> of_terms(
        const Pack<float, V>& g, const Pack<float, V>& normal, const Pack<T, V>* own, float plain, float with_normal) const {
        Pack<float, V> dx;
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float centred = kCentred ? g.v[k] - plain : g.v[k];
            dx.v[k] = rstd * (centred - normal.v[k] * with_normal);
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

// Computes dx of a row by a block. The first packs of the row and their weights stay in registers; the packs after them
// are read again. `dadded` is the gradient of the output x + residual: null unless kSum, and optional then.
template <bool kCentred, bool kSum, typename P, typename T, int V>
__device__ __forceinline__ void gradient_of_row(
    int row, const Pack<T, V>* __restrict__ dy, const Pack<T, V>* __restrict__ dadded, const Pack<T, V>* __restrict__ x,
    const void* __restrict__ weight, const float* __restrict__ means, const float* __restrict__ rstds,
    Pack<T, V>* __restrict__ dx, int packs, float share) {
    __shared__ RowSums of_warp[kMaxWarps];
    const int first = int(threadIdx.x), step = int(blockDim.x), rest = first + kLongPacks * step;
    const RowGradient<kCentred, T, V> gradient = {kCentred ? means[row] : 0.0f, rstds[row]};
    const bool adds = kSum && dadded != nullptr;
    const int64_t begin = int64_t{row} * packs;
    dy += begin;
    x += begin;
    dx += begin;
    if (adds) dadded += begin;
    // All loads are issued before the first use.
    Pack<T, V> dy_tile[kLongPacks], x_tile[kLongPacks], own[kLongPacks];
    Pack<P, V> scale[kLongPacks];
    each_pack<kLongPacks>(first, step, packs, [&](int u, int at) {
        dy_tile[u] = dy[at];
        x_tile[u] = x[at];
        scale[u] = scale_at<P, V>(weight, at);
    });
    if (adds) {  // the packs arrive during the reduction
        each_pack<kLongPacks>(first, step, packs, [&](int u, int at) { own[u] = dadded[at]; });
    }
    RowSums sums = {0.0f, 0.0f};
    Pack<float, V> g[kLongPacks], normal[kLongPacks];
    each_pack<kLongPacks>(first, step, packs, [&](int u, int) {
        gradient.terms(dy_tile[u], x_tile[u], scale[u], g[u].v, normal[u].v);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            if (kCentred) sums.plain += g[u].v[k];
            sums.with_normal = fmaf(g[u].v[k], normal[u].v[k], sums.with_normal);
        }
    });
    for (int at = rest; at < packs; at += step) gradient.sums(dy[at], x[at], scale_at<P, V>(weight, at), &sums);
    sums = warps_sums<kCentred>(sums, of_warp, 0, step);
    const float plain = sums.plain * share, with_normal = sums.with_normal * share;
    each_pack<kLongPacks>(first, step, packs, [&](int u, int at) {
        dx[at] = gradient.of_terms(g[u], normal[u], adds ? &own[u] : nullptr, plain, with_normal);
    });
    for (int at = rest; at < packs; at += step) {
        if (adds) own[0] = dadded[at];
        dx[at] = gradient.of_input(
            dy[at], x[at], scale_at<P, V>(weight, at), adds ? &own[0] : nullptr, plain, with_normal);
    }
}

// A thread adds V columns of a chunk of rows. Partials are [2][chunks][packs], those of the weight first.
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
