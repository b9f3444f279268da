// GELU, exact (erf) or with the tanh approximation, forward and backward, elementwise.
#pragma once

#include "../../csrc/block.cuh"
#include "../../csrc/launched.cuh"
#include "../../csrc/streamed.cuh"
#include "formula.cuh"

namespace kernelwright::gelu {

struct Forward {
    const void* x;
    void* y;
    int64_t count;
    int64_t tanh;  // 1 for the tanh approximation, 0 for erf
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
// Bytes per thread, in one pack. Forward uses wide packs if there are more threads than the GPU holds at once: with
// narrow packs, blocks would not start as fast as memory can serve them.
constexpr int kWideBytes = kVectorBytes, kNarrowBytes = 8;
constexpr int64_t kFewPacks = 132 * 2048;

// Computes `packs` packs, one per thread. The next `rest` threads handle one of the remaining elements each (fewer than
// V).
template <bool kTanh, typename T, int V>
__global__ void __launch_bounds__(kThreads) values(
    const T* x, T* y, int64_t packs, int rest) {
    let_next_begin_at_last();
    await_earlier();
    const int64_t at = int64_t(blockIdx.x) * kThreads + threadIdx.x;
    const auto value = [](T given) { return from_float<T>(value_of<kTanh>(to_float(given))); };
    if (at < packs) {
        Pack<T, V> tile = reinterpret_cast<const Pack<T, V>*>(x)[at];
        for (int k = 0; k < V; ++k) tile.v[k] = value(tile.v[k]);
        reinterpret_cast<Pack<T, V>*>(y)[at] = tile;
    } else if (at < packs + rest) {
        const int64_t place = at + packs * (V - 1);
        y[place] = value(x[place]);
    }
}

// Computes the gradient. The first blocks start while the forward kernel finishes, and prefetch their inputs.
template <bool kTanh, typename T, int V>
__global__ void __launch_bounds__(kThreads) slopes(
    const T* dy, const T* x, T* dx, int64_t packs, int rest) {
    const int64_t at = int64_t(block_from_last()) * kThreads + threadIdx.x;
    if (blockIdx.x < kBlocksAtOnce && at < packs) {
        bring_near(reinterpret_cast<const Pack<T, V>*>(dy) + at);
        bring_near(reinterpret_cast<const Pack<T, V>*>(x) + at);
    }
    await_earlier();
    const auto slope = [](T grown, T given) {
        return from_float<T>(to_float(grown) * slope_of<kTanh>(to_float(given)));
    };
    if (at < packs) {
        const Pack<T, V> grown = read_once(reinterpret_cast<const Pack<T, V>*>(dy) + at);
        Pack<T, V> tile = reinterpret_cast<const Pack<T, V>*>(x)[at];
        for (int k = 0; k < V; ++k) tile.v[k] = slope(grown.v[k], tile.v[k]);
        reinterpret_cast<Pack<T, V>*>(dx)[at] = tile;
    } else if (at < packs + rest) {
        const int64_t place = at + packs * (V - 1);
        dx[place] = slope(dy[place], x[place]);
    }
}

// Calls f(grid, packs, rest) for `count` elements. Returns cudaErrorInvalidValue if they exceed one grid.
template <int V, typename F>
cudaError_t with_grid(int64_t count, F f) {
    const int64_t packs = count / V, rest = count % V, blocks = (packs + rest + kThreads - 1) / kThreads;
    if (blocks > kMaxGrid) return cudaErrorInvalidValue;
    return f(unsigned(blocks), packs, int(rest));
}

template <bool kTanh, typename T, int V>
cudaError_t launch(const Forward& args) {
    return with_grid<V>(args.count, [&](unsigned grid, int64_t packs, int rest) {
        return launched(
            values<kTanh, T, V>, grid, kThreads, args.stream, static_cast<const T*>(args.x), static_cast<T*>(args.y), packs,
            rest);
    });
}

template <bool kTanh, typename T, int V>
cudaError_t launch(const Backward& args) {
    return with_grid<V>(args.count, [&](unsigned grid, int64_t packs, int rest) {
        return launched(
            slopes<kTanh, T, V>, grid, kThreads, args.stream, static_cast<const T*>(args.dy),
            static_cast<const T*>(args.x), static_cast<T*>(args.dx), packs, rest);
    });
}

template <typename T, int V, typename Arguments>
cudaError_t launch_as(const Arguments& args) {
    return args.tanh ? launch<true, T, V>(args) : launch<false, T, V>(args);
}

inline cudaError_t forward(const Forward& args) {
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        constexpr int kNarrow = kNarrowBytes / sizeof(T), kWide = kWideBytes / sizeof(T);
        if (!aligned(args.x) || !aligned(args.y)) return launch_as<T, 1>(args);
        return args.count / kNarrow <= kFewPacks ? launch_as<T, kNarrow>(args) : launch_as<T, kWide>(args);
    });
}

inline cudaError_t backward(const Backward& args) {
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (!aligned(args.dy) || !aligned(args.x) || !aligned(args.dx)) return launch_as<T, 1>(args);
        return launch_as<T, kNarrowBytes / int(sizeof(T))>(args);
    });
}

}  // namespace kernelwright::gelu
