// The product of an activated gate and a value, forward and backward, element by element: SwiGLU and GeGLU.
//
// Shazeer, arXiv 2002.05202. Gate and value are rows of `length` elements, a stride apart each: two tensors, or the two
// halves of one.
#pragma once

#include "../../csrc/divisor.cuh"
#include "../../gelu/csrc/launch.cuh"

namespace kernelwright::gate_product {

enum Act : int64_t { kSilu = 0, kGelu = 1, kGelu_tanh = 2 };

// y = act(gate) * value, contiguous.
struct Forward {
    const void* gate;
    const void* value;
    void* y;
    int64_t rows, length;
    int64_t gate_stride, value_stride;  // elements from one row to the next
    int64_t act;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

struct Backward {
    const void* dy;  // contiguous
    const void* gate;
    const void* value;
    void* dgate;  // or null where it is not wanted
    void* dvalue;
    int64_t rows, length;
    int64_t gate_stride, value_stride, grad_stride;  // the last of both gradients
    int64_t act;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kThreads = 128;
// Packs of one thread. Of vectors a forward takes one: arithmetic bounds it in half precision, and more blocks share it.
template <int V>
constexpr int kForwardPacks = V == 1 ? 2 : 1;
constexpr int kBackwardPacks = 2;

// 1 / (1 + exp(-x)); 0 where that is no float any more.
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + exp2f(x * -gelu::kLog2E)); }

template <int kAct>
__device__ __forceinline__ float activated(float x) {
    if (kAct == kSilu) return x * sigmoid(x);
    return gelu::value_of<kAct == kGelu_tanh>(x);
}

template <int kAct>
__device__ __forceinline__ float slope(float x) {
    if (kAct == kSilu) {
        const float s = sigmoid(x);
        return s * fmaf(x, 1.0f - s, 1.0f);
    }
    return gelu::slope_of<kAct == kGelu_tanh>(x);
}

// Of rows of `packs`, all in units of a pack.
struct Layout {
    int64_t total;
    AnyDivisor packs;
    int64_t gate_stride, value_stride, grad_stride;

    // f(row, column) of each of the kPacks packs of this thread that there are, with its place u in the thread.
    template <int kPacks, typename F>
    __device__ __forceinline__ void each(F f) const {
        const int64_t first = int64_t(blockIdx.x) * (kThreads * kPacks) + threadIdx.x;
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            const int64_t at = first + u * kThreads;
            if (at >= total) return;
            const int64_t row = packs.of(at);
            f(u, row, at - row * packs.by);
        }
    }
};

template <int kAct, typename T, int V>
__global__ void __launch_bounds__(kThreads) products(
    const Pack<T, V>* __restrict__ gate, const Pack<T, V>* __restrict__ value, Pack<T, V>* __restrict__ y,
    Layout layout) {
    constexpr int kPacks = kForwardPacks<V>;
    Pack<T, V> gates[kPacks], values[kPacks];
    layout.each<kPacks>([&](int u, int64_t row, int64_t column) {
        gates[u] = gate[row * layout.gate_stride + column];
        values[u] = value[row * layout.value_stride + column];
    });
    layout.each<kPacks>([&](int u, int64_t row, int64_t column) {
        Pack<T, V> made;
        for (int k = 0; k < V; ++k) {
            made.v[k] = from_float<T>(activated<kAct>(to_float(gates[u].v[k])) * to_float(values[u].v[k]));
        }
        y[row * layout.packs.by + column] = made;
    });
}

template <int kAct, typename T, int V>
__global__ void __launch_bounds__(kThreads) slopes(
    const Pack<T, V>* __restrict__ dy, const Pack<T, V>* __restrict__ gate, const Pack<T, V>* __restrict__ value,
    Pack<T, V>* __restrict__ dgate, Pack<T, V>* __restrict__ dvalue, Layout layout) {
    constexpr int kPacks = kBackwardPacks;
    Pack<T, V> grown[kPacks], gates[kPacks], values[kPacks];
    layout.each<kPacks>([&](int u, int64_t row, int64_t column) {
        grown[u] = dy[row * layout.packs.by + column];
        gates[u] = gate[row * layout.gate_stride + column];
        values[u] = value[row * layout.value_stride + column];
    });
    layout.each<kPacks>([&](int u, int64_t row, int64_t column) {
        Pack<T, V> of_gate, of_value;
        for (int k = 0; k < V; ++k) {
            const float g = to_float(gates[u].v[k]), given = to_float(grown[u].v[k]);
            of_gate.v[k] = from_float<T>(given * to_float(values[u].v[k]) * slope<kAct>(g));
            of_value.v[k] = from_float<T>(given * activated<kAct>(g));
        }
        if (dgate != nullptr) dgate[row * layout.grad_stride + column] = of_gate;
        if (dvalue != nullptr) dvalue[row * layout.grad_stride + column] = of_value;
    });
}

// The grid for `layout`, `each` packs a thread, or 0 where there are too many packs for one.
inline unsigned grid_for(const Layout& layout, int each) {
    const int64_t blocks = (layout.total + kThreads * each - 1) / (kThreads * each);
    return blocks > kMaxGrid ? 0 : unsigned(blocks);
}

template <int kAct, typename T, int V>
cudaError_t launch(const Forward& args) {
    const int64_t packs = args.length / V;
    const Layout layout = {args.rows * packs, AnyDivisor(packs), args.gate_stride / V, args.value_stride / V, 0};
    const unsigned grid = grid_for(layout, kForwardPacks<V>);
    if (grid == 0) return cudaErrorInvalidValue;
    products<kAct, T, V><<<grid, kThreads, 0, args.stream>>>(
        static_cast<const Pack<T, V>*>(args.gate), static_cast<const Pack<T, V>*>(args.value),
        static_cast<Pack<T, V>*>(args.y), layout);
    return cudaGetLastError();
}

template <int kAct, typename T, int V>
cudaError_t launch(const Backward& args) {
    const int64_t packs = args.length / V;
    const Layout layout = {
        args.rows * packs, AnyDivisor(packs), args.gate_stride / V, args.value_stride / V, args.grad_stride / V};
    const unsigned grid = grid_for(layout, kBackwardPacks);
    if (grid == 0) return cudaErrorInvalidValue;
    slopes<kAct, T, V><<<grid, kThreads, 0, args.stream>>>(
        static_cast<const Pack<T, V>*>(args.dy), static_cast<const Pack<T, V>*>(args.gate),
        static_cast<const Pack<T, V>*>(args.value), static_cast<Pack<T, V>*>(args.dgate),
        static_cast<Pack<T, V>*>(args.dvalue), layout);
    return cudaGetLastError();
}

template <typename T, int V, typename Arguments>
cudaError_t launch_with_act(const Arguments& args) {
    if (args.act == kSilu) return launch<kSilu, T, V>(args);
    if (args.act == kGelu) return launch<kGelu, T, V>(args);
    if (args.act == kGelu_tanh) return launch<kGelu_tanh, T, V>(args);
    return cudaErrorInvalidValue;
}

template <typename Arguments>
cudaError_t launch_as(const Arguments& args, bool addresses, int64_t grad_stride) {
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        constexpr int V = kVector<T>;
        const bool strides = args.gate_stride % V == 0 && args.value_stride % V == 0 && grad_stride % V == 0;
        if (addresses && strides && args.length % V == 0) return launch_with_act<T, V>(args);
        return launch_with_act<T, 1>(args);
    });
}

inline cudaError_t forward(const Forward& args) {
    return launch_as(args, aligned(args.gate) && aligned(args.value) && aligned(args.y), 0);
}

inline cudaError_t backward(const Backward& args) {
    const bool gradients = aligned(args.dgate) && aligned(args.dvalue);
    return launch_as(args, aligned(args.dy) && aligned(args.gate) && aligned(args.value) && gradients, args.grad_stride);
}

}  // namespace kernelwright::gate_product
