// LayerNorm and RMSNorm over contiguous rows, forward and backward; statistics in float32.
//
// A block takes a row. Where its threads' registers hold the row it is read once, and the variance is that of
// the deviations from the finished mean. A longer row is read twice: moments of small tiles merged by Chan's
// formula, so that a large common offset costs no digits, then the result.
// Gradients of the parameters: partial sums over chunks of rows, then a sum over the chunks; no atomics, so
// that runs agree to the bit.
#pragma once

#include "block.cuh"

namespace kernelwright {

// y = (x - mean) * rstd * weight + bias over the last dimension of [rows, length]; RMSNorm has no mean.
struct RowForward {
    const void* x;
    const void* weight;  // param_dtype [length], or null
    const void* bias;    // param_dtype [length], or null
    void* y;
    float* mean;  // [rows], or null where it is not wanted
    float* rstd;
    int64_t rows, length;
    int64_t dtype, param_dtype;
    double eps;
    cudaStream_t stream;
    int64_t device;
};

struct RowBackward {
    const void* dy;
    const void* x;
    const void* weight;
    const float* mean;
    const float* rstd;
    void* dx;       // or null where it is not wanted
    void* dweight;  // param_dtype [length], or null
    void* dbias;
    void* workspace;  // row_backward_workspace bytes
    int64_t rows, length;
    int64_t dtype, param_dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kForwardPacks = 4;   // of a row, in one thread's registers
constexpr int kBackwardPacks = 2;  // of each of two rows
constexpr int64_t kChunkRows = 32;
constexpr int64_t kMaxChunks = 128;
constexpr int kColumnThreads = 256;

struct Moments {
    float count;
    float mean;
    float m2;  // sum of squared deviations from the mean
};

// Chan, Golub, LeVeque: "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
__device__ __forceinline__ Moments merge(Moments a, Moments b) {
    const float count = a.count + b.count;
    if (count == 0.0f) return a;
    const float share = b.count / count;
    const float delta = b.mean - a.mean;
    return {count, a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.count * share};
}

__device__ __forceinline__ Moments warp_merge(Moments mine) {
    #pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        Moments other;
        other.count = __shfl_xor_sync(0xffffffff, mine.count, offset);
        other.mean = __shfl_xor_sync(0xffffffff, mine.mean, offset);
        other.m2 = __shfl_xor_sync(0xffffffff, mine.m2, offset);
        mine = merge(mine, other);
    }
    return mine;
}

__device__ __forceinline__ Moments block_merge(Moments mine, Moments* of_warp) {
    mine = warp_merge(mine);
    const int warps = int(blockDim.x) / kWarp;
    if (warps == 1) return mine;
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
    __syncthreads();
    const int lane = int(threadIdx.x) % kWarp;
    return warp_merge(lane < warps ? of_warp[lane] : Moments{0.0f, 0.0f, 0.0f});
}

template <typename T, typename P, int V>
__device__ __forceinline__ Pack<T, V> affine(
    Pack<T, V> pack, const Pack<P, V>* weight, const Pack<P, V>* bias, int64_t at, float mean, float rstd) {
    Pack<P, V> scale, shift;
    if (weight != nullptr) scale = weight[at];
    if (bias != nullptr) shift = bias[at];
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        float value = (to_float(pack.v[k]) - mean) * rstd;
        if (weight != nullptr) value *= to_float(scale.v[k]);
        if (bias != nullptr) value += to_float(shift.v[k]);
        pack.v[k] = from_float<T>(value);
    }
    return pack;
}

// The row is held in registers.
template <bool kCentred, typename T, typename P, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) row_norm_resident(
    const Pack<T, V>* __restrict__ x, const Pack<P, V>* __restrict__ weight, const Pack<P, V>* __restrict__ bias,
    Pack<T, V>* __restrict__ y, float* __restrict__ means, float* __restrict__ rstds, int64_t packs, float eps) {
    __shared__ float of_mean[kMaxWarps], of_variance[kMaxWarps];
    const int64_t row = blockIdx.x;
    Pack<T, V> tile[kForwardPacks];
    #pragma unroll
    for (int u = 0; u < kForwardPacks; ++u) {
        const int64_t at = threadIdx.x + u * int64_t(blockDim.x);
        if (at < packs) tile[u] = x[row * packs + at];
    }
    const float count = float(packs * V);
    float mean = 0.0f;
    if (kCentred) {
        float sum = 0.0f;
        #pragma unroll
        for (int u = 0; u < kForwardPacks; ++u) {
            if (threadIdx.x + u * int64_t(blockDim.x) < packs) {
                for (int k = 0; k < V; ++k) sum += to_float(tile[u].v[k]);
            }
        }
        mean = block_reduce<Sum>(sum, of_mean) / count;
    }
    float squares = 0.0f;
    #pragma unroll
    for (int u = 0; u < kForwardPacks; ++u) {
        if (threadIdx.x + u * int64_t(blockDim.x) < packs) {
            for (int k = 0; k < V; ++k) {
                const float deviation = to_float(tile[u].v[k]) - mean;
                squares += deviation * deviation;
            }
        }
    }
    const float rstd = 1.0f / sqrtf(block_reduce<Sum>(squares, of_variance) / count + eps);
    #pragma unroll
    for (int u = 0; u < kForwardPacks; ++u) {
        const int64_t at = threadIdx.x + u * int64_t(blockDim.x);
        if (at < packs) y[row * packs + at] = affine(tile[u], weight, bias, at, mean, rstd);
    }
    if (rstds != nullptr && threadIdx.x == 0) {
        if (kCentred) means[row] = mean;
        rstds[row] = rstd;
    }
}

// Moments of this thread's share of a row; for RMSNorm about zero.
template <bool kCentred, typename T, int V>
__device__ __forceinline__ Moments share_of_row(const Pack<T, V>* row, int64_t packs) {
    Moments total = {0.0f, 0.0f, 0.0f};
    for (int64_t i = threadIdx.x; i < packs; i += kForwardPacks * int64_t(blockDim.x)) {
        Pack<T, V> tile[kForwardPacks];
        int loaded = 0;
        #pragma unroll
        for (int u = 0; u < kForwardPacks; ++u) {
            const int64_t at = i + u * int64_t(blockDim.x);
            if (at < packs) {
                tile[u] = row[at];
                ++loaded;
            }
        }
        const float count = float(loaded * V);
        float mean = 0.0f;
        if (kCentred) {
            #pragma unroll
            for (int u = 0; u < kForwardPacks; ++u) {
                if (u < loaded) {
                    for (int k = 0; k < V; ++k) mean += to_float(tile[u].v[k]);
                }
            }
            mean /= count;
        }
        float m2 = 0.0f;
        #pragma unroll
        for (int u = 0; u < kForwardPacks; ++u) {
            if (u < loaded) {
                for (int k = 0; k < V; ++k) {
                    const float deviation = to_float(tile[u].v[k]) - mean;
                    m2 += deviation * deviation;
                }
            }
        }
        total = merge(total, {count, mean, m2});
    }
    return total;
}

// The row is longer than the registers of a block.
template <bool kCentred, typename T, typename P, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) row_norm_streamed(
    const Pack<T, V>* __restrict__ x, const Pack<P, V>* __restrict__ weight, const Pack<P, V>* __restrict__ bias,
    Pack<T, V>* __restrict__ y, float* __restrict__ means, float* __restrict__ rstds, int64_t packs, float eps) {
    __shared__ Moments of_warp[kMaxWarps];
    const int64_t row = blockIdx.x;
    const Moments all = block_merge(share_of_row<kCentred>(x + row * packs, packs), of_warp);
    const float rstd = 1.0f / sqrtf(all.m2 / all.count + eps);
    for (int64_t at = threadIdx.x; at < packs; at += blockDim.x) {
        y[row * packs + at] = affine(x[row * packs + at], weight, bias, at, all.mean, rstd);
    }
    if (rstds != nullptr && threadIdx.x == 0) {
        if (kCentred) means[row] = all.mean;
        rstds[row] = rstd;
    }
}

template <bool kCentred, typename T, typename P, int V>
cudaError_t launch_forward(const RowForward& args) {
    const int64_t packs = args.length / V;
    const auto* x = static_cast<const Pack<T, V>*>(args.x);
    const auto* weight = static_cast<const Pack<P, V>*>(args.weight);
    const auto* bias = static_cast<const Pack<P, V>*>(args.bias);
    auto* y = static_cast<Pack<T, V>*>(args.y);
    const unsigned grid = unsigned(args.rows);
    const unsigned block = block_for(packs, kForwardPacks);
    if (packs <= int64_t(block) * kForwardPacks) {
        row_norm_resident<kCentred, T, P, V><<<grid, block, 0, args.stream>>>(
            x, weight, bias, y, args.mean, args.rstd, packs, float(args.eps));
    } else {
        row_norm_streamed<kCentred, T, P, V><<<grid, block, 0, args.stream>>>(
            x, weight, bias, y, args.mean, args.rstd, packs, float(args.eps));
    }
    return cudaGetLastError();
}

// Whether rows and parameters can be read in vectors of T.
template <typename T, typename P>
bool in_vectors(int64_t length, const void* a, const void* b, const void* c, const void* p, const void* q) {
    constexpr int64_t parameter = sizeof(Pack<P, kVector<T>>);
    const bool params = reinterpret_cast<uintptr_t>(p) % parameter == 0 && reinterpret_cast<uintptr_t>(q) % parameter == 0;
    return length % kVector<T> == 0 && aligned(a) && aligned(b) && aligned(c) && params;
}

template <bool kCentred>
cudaError_t row_forward(const RowForward& args) {
    if (args.rows > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtypes(args.dtype, args.param_dtype, [&](auto element, auto parameter) {
        using T = decltype(element);
        using P = decltype(parameter);
        if (in_vectors<T, P>(args.length, args.x, args.y, nullptr, args.weight, args.bias)) {
            return launch_forward<kCentred, T, P, kVector<T>>(args);
        }
        return launch_forward<kCentred, T, P, 1>(args);
    });
}

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
__global__ void __launch_bounds__(kWarp* kMaxWarps) row_norm_backward(
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
    Pack<T, V> dy_tile[kBackwardPacks], x_tile[kBackwardPacks];
    float plain = 0.0f, with_normal = 0.0f;
    #pragma unroll
    for (int u = 0; u < kBackwardPacks; ++u) {
        const int64_t at = threadIdx.x + u * int64_t(blockDim.x);
        if (at < packs) {
            dy_tile[u] = dy[at];
            x_tile[u] = x[at];
        }
    }
    #pragma unroll
    for (int u = 0; u < kBackwardPacks; ++u) {
        const int64_t at = threadIdx.x + u * int64_t(blockDim.x);
        if (at < packs) gradient.sums(dy_tile[u], x_tile[u], at, &plain, &with_normal);
    }
    const int64_t rest = threadIdx.x + kBackwardPacks * int64_t(blockDim.x);
    for (int64_t at = rest; at < packs; at += blockDim.x) {
        gradient.sums(dy[at], x[at], at, &plain, &with_normal);
    }
    const float count = float(packs * V);
    if (kCentred) plain = block_reduce<Sum>(plain, of_plain) / count;
    with_normal = block_reduce<Sum>(with_normal, of_normal) / count;
    #pragma unroll
    for (int u = 0; u < kBackwardPacks; ++u) {
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

template <typename P>
__global__ void parameter_sums(
    const float* __restrict__ partials, P* __restrict__ dweight, P* __restrict__ dbias, int64_t chunks,
    int64_t length) {
    const int64_t column = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column >= length) return;
    float of_weight = 0.0f, of_bias = 0.0f;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        of_weight += partials[chunk * length + column];
        of_bias += partials[(chunks + chunk) * length + column];
    }
    if (dweight != nullptr) dweight[column] = from_float<P>(of_weight);
    if (dbias != nullptr) dbias[column] = from_float<P>(of_bias);
}

inline int64_t chunks_of(int64_t rows) {
    return std::max<int64_t>(1, std::min<int64_t>((rows + kChunkRows - 1) / kChunkRows, kMaxChunks));
}

inline int64_t row_backward_workspace(const RowBackward& args) {
    if (args.dweight == nullptr && args.dbias == nullptr) return 0;
    return 2 * chunks_of(args.rows) * args.length * int64_t(sizeof(float));
}

template <bool kCentred, typename T, typename P, int V>
cudaError_t launch_backward(const RowBackward& args) {
    const int64_t packs = args.length / V;
    row_norm_backward<kCentred, T, P, V><<<unsigned(args.rows), block_for(packs, kBackwardPacks), 0, args.stream>>>(
        static_cast<const Pack<T, V>*>(args.dy), static_cast<const Pack<T, V>*>(args.x),
        static_cast<const Pack<P, V>*>(args.weight), args.mean, args.rstd, static_cast<Pack<T, V>*>(args.dx), packs);
    return cudaGetLastError();
}

template <bool kCentred, typename T, typename P>
cudaError_t launch_parameters(const RowBackward& args) {
    const int64_t columns = (args.length + kColumnThreads - 1) / kColumnThreads;
    const int64_t chunks = chunks_of(args.rows);
    const int64_t chunk_rows = (args.rows + chunks - 1) / chunks;
    if (columns > kMaxGrid) return cudaErrorInvalidValue;
    float* partials = static_cast<float*>(args.workspace);
    parameter_partials<kCentred, T><<<dim3(unsigned(columns), unsigned(chunks)), kColumnThreads, 0, args.stream>>>(
        static_cast<const T*>(args.dy), static_cast<const T*>(args.x), args.mean, args.rstd, partials, args.rows,
        args.length, chunk_rows);
    const cudaError_t launched = cudaGetLastError();
    if (launched != cudaSuccess) return launched;
    parameter_sums<P><<<unsigned(columns), kColumnThreads, 0, args.stream>>>(
        partials, static_cast<P*>(args.dweight), static_cast<P*>(args.dbias), chunks, args.length);
    return cudaGetLastError();
}

template <bool kCentred>
cudaError_t row_backward(const RowBackward& args) {
    if (args.rows > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtypes(args.dtype, args.param_dtype, [&](auto element, auto parameter) {
        using T = decltype(element);
        using P = decltype(parameter);
        cudaError_t done = cudaSuccess;
        if (args.dx != nullptr) {
            const bool vectors = in_vectors<T, P>(args.length, args.dy, args.x, args.dx, args.weight, nullptr);
            done = vectors ? launch_backward<kCentred, T, P, kVector<T>>(args)
                           : launch_backward<kCentred, T, P, 1>(args);
        }
        if (done != cudaSuccess || (args.dweight == nullptr && args.dbias == nullptr)) return done;
        return launch_parameters<kCentred, T, P>(args);
    });
}

}  // namespace kernelwright
