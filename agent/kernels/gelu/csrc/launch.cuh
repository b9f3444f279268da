// GELU, exact (erf) or by the tanh approximation, forward and backward, element by element.
//
// Hendrycks and Gimpel, arXiv 1606.08415: x * Phi(x), and its approximation.
#pragma once

#include "../../csrc/element.cuh"

namespace kernelwright::gelu {

struct Forward {
    const void* x;
    void* y;
    int64_t count;
    int64_t tanh;  // 1: the approximation
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

struct Backward {
    const void* dy;
    const void* x;
    void* dx;
    int64_t count;
    int64_t tanh;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kThreads = 256;
constexpr int kPacks = 2;  // of one thread
constexpr float kSqrtHalf = 0.7071067811865476f;
constexpr float kInverseSqrt2Pi = 0.3989422804014327f;
constexpr float kSqrt2OverPi = 0.7978845608028654f;
constexpr float kCubic = 0.044715f;

template <bool kTanh>
__device__ __forceinline__ float value_of(float x) {
    if (kTanh) return 0.5f * x * (1.0f + tanhf(kSqrt2OverPi * (x + kCubic * x * x * x)));
    return 0.5f * x * (1.0f + erff(x * kSqrtHalf));
}

template <bool kTanh>
__device__ __forceinline__ float slope_of(float x) {
    if (kTanh) {
        const float t = tanhf(kSqrt2OverPi * (x + kCubic * x * x * x));
        const float inner = kSqrt2OverPi * (1.0f + 3.0f * kCubic * x * x);
        return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
    }
    return 0.5f * (1.0f + erff(x * kSqrtHalf)) + x * kInverseSqrt2Pi * expf(-0.5f * x * x);
}

template <bool kTanh, typename T, int V>
__global__ void __launch_bounds__(kThreads) values(
    const Pack<T, V>* __restrict__ x, Pack<T, V>* __restrict__ y, int64_t packs) {
    const int64_t first = int64_t(blockIdx.x) * blockDim.x * kPacks + threadIdx.x;
    Pack<T, V> tile[kPacks];
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        if (first + u * kThreads < packs) tile[u] = x[first + u * kThreads];
    }
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        if (first + u * kThreads >= packs) return;
        for (int k = 0; k < V; ++k) tile[u].v[k] = from_float<T>(value_of<kTanh>(to_float(tile[u].v[k])));
        y[first + u * kThreads] = tile[u];
    }
}

template <bool kTanh, typename T, int V>
__global__ void __launch_bounds__(kThreads) slopes(
    const Pack<T, V>* __restrict__ dy, const Pack<T, V>* __restrict__ x, Pack<T, V>* __restrict__ dx,
    int64_t packs) {
    const int64_t first = int64_t(blockIdx.x) * blockDim.x * kPacks + threadIdx.x;
    Pack<T, V> grown[kPacks], tile[kPacks];
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        if (first + u * kThreads < packs) {
            grown[u] = dy[first + u * kThreads];
            tile[u] = x[first + u * kThreads];
        }
    }
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        if (first + u * kThreads >= packs) return;
        for (int k = 0; k < V; ++k) {
            const float slope = slope_of<kTanh>(to_float(tile[u].v[k]));
            tile[u].v[k] = from_float<T>(to_float(grown[u].v[k]) * slope);
        }
        dx[first + u * kThreads] = tile[u];
    }
}

// The grid for `packs`, or 0 where they are too many for one.
inline unsigned grid_for(int64_t packs) {
    const int64_t blocks = (packs + kThreads * kPacks - 1) / (kThreads * kPacks);
    return blocks > kMaxGrid ? 0 : unsigned(blocks);
}

template <bool kTanh, typename T, int V>
cudaError_t launch(const Forward& args) {
    const int64_t packs = args.count / V;
    const unsigned grid = grid_for(packs);
    if (grid == 0) return cudaErrorInvalidValue;
    values<kTanh, T, V><<<grid, kThreads, 0, args.stream>>>(
        static_cast<const Pack<T, V>*>(args.x), static_cast<Pack<T, V>*>(args.y), packs);
    return cudaGetLastError();
}

template <bool kTanh, typename T, int V>
cudaError_t launch(const Backward& args) {
    const int64_t packs = args.count / V;
    const unsigned grid = grid_for(packs);
    if (grid == 0) return cudaErrorInvalidValue;
    slopes<kTanh, T, V><<<grid, kThreads, 0, args.stream>>>(
        static_cast<const Pack<T, V>*>(args.dy), static_cast<const Pack<T, V>*>(args.x),
        static_cast<Pack<T, V>*>(args.dx), packs);
    return cudaGetLastError();
}

template <typename Arguments>
cudaError_t launch_as(const Arguments& args, bool vectors) {
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        constexpr int V = kVector<T>;
        if (vectors && args.count % V == 0) {
            return args.tanh ? launch<true, T, V>(args) : launch<false, T, V>(args);
        }
        return args.tanh ? launch<true, T, 1>(args) : launch<false, T, 1>(args);
    });
}

inline cudaError_t forward(const Forward& args) { return launch_as(args, aligned(args.x) && aligned(args.y)); }

inline cudaError_t backward(const Backward& args) {
    return launch_as(args, aligned(args.dy) && aligned(args.x) && aligned(args.dx));
}

}  // namespace kernelwright::gelu
