// The product of an activated gate and a value, forward and backward, element by element: SwiGLU and GeGLU.
//
// Shazeer, arXiv 2002.05202. Gate and value are rows of `length` elements, a stride apart each: two tensors, or the two
// halves of one.
#pragma once

#include "../../csrc/divisor.cuh"
#include "../../csrc/element.cuh"
#include "../../gelu/csrc/formula.cuh"

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

constexpr int kThreads = 256;
constexpr int kPackBytes = 8;  // of which a thread takes one of each tensor: 16 gain nothing where memory bounds it
template <typename T>
constexpr int kWide = kPackBytes / int(sizeof(T));

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

// A thread takes one pack of each tensor: `at` of all, in a row and a column of packs.
template <typename Index>
struct Layout {
    Index total;
    Divisor<Index> packs;  // of a row
    int64_t gate_stride, value_stride, grad_stride;  // in packs
};

template <int kAct, typename T, int V, typename Index>
__global__ void __launch_bounds__(kThreads) products(
    const Pack<T, V>* __restrict__ gate, const Pack<T, V>* __restrict__ value, Pack<T, V>* __restrict__ y,
    Layout<Index> layout) {
    const Index at = Index(blockIdx.x) * kThreads + threadIdx.x;
    if (at >= layout.total) return;
    const Index row = layout.packs.of(at), column = at - row * layout.packs.by;
    const Pack<T, V> gates = gate[row * layout.gate_stride + column];
    const Pack<T, V> values = value[row * layout.value_stride + column];
    Pack<T, V> made;
    for (int k = 0; k < V; ++k) {
        made.v[k] = from_float<T>(activated<kAct>(to_float(gates.v[k])) * to_float(values.v[k]));
    }
    y[at] = made;
}

template <int kAct, typename T, int V, typename Index>
__global__ void __launch_bounds__(kThreads) slopes(
    const Pack<T, V>* __restrict__ dy, const Pack<T, V>* __restrict__ gate, const Pack<T, V>* __restrict__ value,
    Pack<T, V>* __restrict__ dgate, Pack<T, V>* __restrict__ dvalue, Layout<Index> layout) {
    const Index at = Index(blockIdx.x) * kThreads + threadIdx.x;
    if (at >= layout.total) return;
    const Index row = layout.packs.of(at), column = at - row * layout.packs.by;
    const Pack<T, V> grown = dy[at];
    const Pack<T, V> gates = gate[row * layout.gate_stride + column];
    const Pack<T, V> values = value[row * layout.value_stride + column];
    Pack<T, V> of_gate, of_value;
    for (int k = 0; k < V; ++k) {
        const float g = to_float(gates.v[k]), given = to_float(grown.v[k]);
        of_gate.v[k] = from_float<T>(given * to_float(values.v[k]) * slope<kAct>(g));
        of_value.v[k] = from_float<T>(given * activated<kAct>(g));
    }
    if (dgate != nullptr) dgate[row * layout.grad_stride + column] = of_gate;
    if (dvalue != nullptr) dvalue[row * layout.grad_stride + column] = of_value;
}

// `grad_stride` in elements, as those of the arguments.
template <int V, typename Index, typename Arguments>
Layout<Index> layout_of(const Arguments& args, int64_t grad_stride) {
    const int64_t packs = args.length / V;
    return {
        Index(args.rows * packs), Divisor<Index>(packs), args.gate_stride / V, args.value_stride / V, grad_stride / V};
}

// The grid for so many packs, or 0 where there are too many for one.
inline unsigned grid_for(int64_t total) {
    const int64_t blocks = (total + kThreads - 1) / kThreads;
    return blocks > kMaxGrid ? 0 : unsigned(blocks);
}

template <int kAct, typename T, int V, typename Index>
cudaError_t launch(const Forward& args) {
    const auto layout = layout_of<V, Index>(args, 0);
    const unsigned grid = grid_for(layout.total);
    if (grid == 0) return cudaErrorInvalidValue;
    products<kAct, T, V><<<grid, kThreads, 0, args.stream>>>(
        static_cast<const Pack<T, V>*>(args.gate), static_cast<const Pack<T, V>*>(args.value),
        static_cast<Pack<T, V>*>(args.y), layout);
    return cudaGetLastError();
}

template <int kAct, typename T, int V, typename Index>
cudaError_t launch(const Backward& args) {
    const auto layout = layout_of<V, Index>(args, args.grad_stride);
    const unsigned grid = grid_for(layout.total);
    if (grid == 0) return cudaErrorInvalidValue;
    slopes<kAct, T, V><<<grid, kThreads, 0, args.stream>>>(
        static_cast<const Pack<T, V>*>(args.dy), static_cast<const Pack<T, V>*>(args.gate),
        static_cast<const Pack<T, V>*>(args.value), static_cast<Pack<T, V>*>(args.dgate),
        static_cast<Pack<T, V>*>(args.dvalue), layout);
    return cudaGetLastError();
}

template <typename T, int V, typename Index, typename Arguments>
cudaError_t launch_with_act(const Arguments& args) {
    if (args.act == kSilu) return launch<kSilu, T, V, Index>(args);
    if (args.act == kGelu) return launch<kGelu, T, V, Index>(args);
    if (args.act == kGelu_tanh) return launch<kGelu_tanh, T, V, Index>(args);
    return cudaErrorInvalidValue;
}

template <typename Arguments>
cudaError_t launch_as(const Arguments& args, bool addresses, int64_t grad_stride) {
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        constexpr int V = kWide<T>;
        const bool strides = args.gate_stride % V == 0 && args.value_stride % V == 0 && grad_stride % V == 0;
        const bool whole = args.length % V == 0 && is_narrow(args.rows * args.length / V);
        if (addresses && strides && whole) return launch_with_act<T, V, unsigned>(args);
        if (is_narrow(args.rows * args.length)) return launch_with_act<T, 1, unsigned>(args);
        return launch_with_act<T, 1, int64_t>(args);
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
