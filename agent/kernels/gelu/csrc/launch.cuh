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

constexpr int kThreads = 128;
constexpr int kPacks = 2;  // of one thread
constexpr int64_t kFewPacks = 2 * 132 * kThreads;  // up to here a thread takes one, so that more SMs have some
constexpr float kLog2E = 1.4426950408889634f;
constexpr float kInverseSqrt2Pi = 0.3989422804014327f;
constexpr float kSqrt2OverPi = 0.7978845608028654f;
constexpr float kCubic = 0.044715f;

// Phi (or its approximation) and the slope are both a p with p(x) = 1 - p(-x). They are computed for a = |x| on the
// side below 0, where they are small: one exponential times a smooth factor.

// Phi(-a) * exp(a^2 / 2), by the polynomial of degree 12 that is at most 4.4e-9 off once the exponential is back: our
// own fit on [0, 5.5], by Lawson's iteration. Beyond, Phi(-a) is below 2e-8.
__device__ __forceinline__ float scaled_tail(float a) {
    a = fminf(a, 5.5f);
    float p = 5.852788982e-08f;
    p = fmaf(p, a, -1.603553569e-06f);
    p = fmaf(p, a, 1.989205657e-05f);
    p = fmaf(p, a, -1.497863266e-04f);
    p = fmaf(p, a, 7.796590975e-04f);
    p = fmaf(p, a, -3.055319354e-03f);
    p = fmaf(p, a, 9.659756878e-03f);
    p = fmaf(p, a, -2.606913672e-02f);
    p = fmaf(p, a, 6.226236747e-02f);
    p = fmaf(p, a, -1.329168910e-01f);
    p = fmaf(p, a, 2.499911012e-01f);
    p = fmaf(p, a, -3.989417949e-01f);
    return fmaf(p, a, 0.5f);
}

__device__ __forceinline__ float bell(float x) { return exp2f(x * x * (-0.5f * kLog2E)); }

// exp(-2 u) of the approximation 0.5 * (1 + tanh(u)) to Phi(a).
__device__ __forceinline__ float tanh_decay(float a) {
    return exp2f(a * fmaf(a * a, -2.0f * kLog2E * kSqrt2OverPi * kCubic, -2.0f * kLog2E * kSqrt2OverPi));
}

// p(x) of p(-|x|).
__device__ __forceinline__ float on_side_of(float x, float below) { return x >= 0.0f ? 1.0f - below : below; }

template <bool kTanh>
__device__ __forceinline__ float value_of(float x) {
    const float a = fabsf(x);
    if (kTanh) {
        const float decay = tanh_decay(a);
        return x * on_side_of(x, __fdividef(decay, 1.0f + decay));
    }
    return x * on_side_of(x, bell(x) * scaled_tail(a));
}

template <bool kTanh>
__device__ __forceinline__ float slope_of(float x) {
    const float a = fabsf(x);
    if (kTanh) {
        const float decay = tanh_decay(a), above = __fdividef(1.0f, 1.0f + decay);
        const float inner = fmaf(a * a, 6.0f * kSqrt2OverPi * kCubic, 2.0f * kSqrt2OverPi);
        return on_side_of(x, decay * above * fmaf(-a * above, inner, 1.0f));
    }
    return on_side_of(x, bell(x) * fmaf(a, -kInverseSqrt2Pi, scaled_tail(a)));
}

template <bool kTanh, int P, typename T, int V>
__global__ void __launch_bounds__(kThreads) values(
    const Pack<T, V>* __restrict__ x, Pack<T, V>* __restrict__ y, int64_t packs) {
    const int64_t first = int64_t(blockIdx.x) * blockDim.x * P + threadIdx.x;
    Pack<T, V> tile[P];
    #pragma unroll
    for (int u = 0; u < P; ++u) {
        if (first + u * kThreads < packs) tile[u] = x[first + u * kThreads];
    }
    #pragma unroll
    for (int u = 0; u < P; ++u) {
        if (first + u * kThreads >= packs) return;
        for (int k = 0; k < V; ++k) tile[u].v[k] = from_float<T>(value_of<kTanh>(to_float(tile[u].v[k])));
        y[first + u * kThreads] = tile[u];
    }
}

template <bool kTanh, int P, typename T, int V>
__global__ void __launch_bounds__(kThreads) slopes(
    const Pack<T, V>* __restrict__ dy, const Pack<T, V>* __restrict__ x, Pack<T, V>* __restrict__ dx,
    int64_t packs) {
    const int64_t first = int64_t(blockIdx.x) * blockDim.x * P + threadIdx.x;
    Pack<T, V> grown[P], tile[P];
    #pragma unroll
    for (int u = 0; u < P; ++u) {
        if (first + u * kThreads < packs) {
            grown[u] = dy[first + u * kThreads];
            tile[u] = x[first + u * kThreads];
        }
    }
    #pragma unroll
    for (int u = 0; u < P; ++u) {
        if (first + u * kThreads >= packs) return;
        for (int k = 0; k < V; ++k) {
            const float slope = slope_of<kTanh>(to_float(tile[u].v[k]));
            tile[u].v[k] = from_float<T>(to_float(grown[u].v[k]) * slope);
        }
        dx[first + u * kThreads] = tile[u];
    }
}

// The grid for `packs`, `each` of them by a thread, or 0 where they are too many for one.
inline unsigned grid_for(int64_t packs, int each) {
    const int64_t blocks = (packs + kThreads * each - 1) / (kThreads * each);
    return blocks > kMaxGrid ? 0 : unsigned(blocks);
}

template <bool kTanh, int P, typename T, int V>
cudaError_t launch(const Forward& args) {
    const int64_t packs = args.count / V;
    const unsigned grid = grid_for(packs, P);
    if (grid == 0) return cudaErrorInvalidValue;
    values<kTanh, P><<<grid, kThreads, 0, args.stream>>>(
        static_cast<const Pack<T, V>*>(args.x), static_cast<Pack<T, V>*>(args.y), packs);
    return cudaGetLastError();
}

template <bool kTanh, int P, typename T, int V>
cudaError_t launch(const Backward& args) {
    const int64_t packs = args.count / V;
    const unsigned grid = grid_for(packs, P);
    if (grid == 0) return cudaErrorInvalidValue;
    slopes<kTanh, P><<<grid, kThreads, 0, args.stream>>>(
        static_cast<const Pack<T, V>*>(args.dy), static_cast<const Pack<T, V>*>(args.x),
        static_cast<Pack<T, V>*>(args.dx), packs);
    return cudaGetLastError();
}

template <typename T, int V, typename Arguments>
cudaError_t launch_in(const Arguments& args) {
    if (args.count / V <= kFewPacks) return args.tanh ? launch<true, 1, T, V>(args) : launch<false, 1, T, V>(args);
    return args.tanh ? launch<true, kPacks, T, V>(args) : launch<false, kPacks, T, V>(args);
}

template <typename Arguments>
cudaError_t launch_as(const Arguments& args, bool vectors) {
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        constexpr int V = kVector<T>;
        return vectors && args.count % V == 0 ? launch_in<T, V>(args) : launch_in<T, 1>(args);
    });
}

inline cudaError_t forward(const Forward& args) { return launch_as(args, aligned(args.x) && aligned(args.y)); }

inline cudaError_t backward(const Backward& args) {
    return launch_as(args, aligned(args.dy) && aligned(args.x) && aligned(args.dx));
}

}  // namespace kernelwright::gelu
