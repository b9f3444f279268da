// GELU, exact (erf) or by the tanh approximation, forward and backward, element by element.
#pragma once

#include "../../csrc/element.cuh"
#include "formula.cuh"

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
