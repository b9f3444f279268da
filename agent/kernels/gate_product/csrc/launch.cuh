// Elementwise product of an activated gate and a value, forward and backward: SwiGLU and GeGLU (Shazeer, arXiv 2002.05202).
//
// Gate and value are strided rows of `length` elements: two tensors, or the two halves of one.
#pragma once

#include "../../csrc/block.cuh"
#include "../../csrc/divisor.cuh"
#include "../../csrc/launched.cuh"
#include "../../csrc/streamed.cuh"
#include "../../gelu/csrc/formula.cuh"

namespace kernelwright::gate_product {

enum Act : int64_t { kSilu = 0, kGelu = 1, kGelu_tanh = 2 };

// Arguments of y = act(gate) * value; y is contiguous.
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
    const void* dy;  // gradient of y, contiguous
    const void* gate;
    const void* value;
    void* dgate;  // null if unwanted, as is dvalue
    void* dvalue;
    int64_t rows, length;
    int64_t gate_stride, value_stride, grad_stride;  // grad_stride is the row stride of dgate and dvalue
    int64_t act;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kThreads = 256;
constexpr int kPackBytes = 8;  // bytes of each tensor per thread; with 16 bytes a memory-bound kernel is no faster
template <typename T>
constexpr int kWide = kPackBytes / int(sizeof(T));

// Returns 1 / (1 + exp(-x)), flushed to 0 where exp(-x) overflows.
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

// Packs of each tensor per thread: two where a pack is a single element, kThreads packs apart.
template <int V>
constexpr int kEach = V == 1 ? 2 : 1;

// Position of a pack: linear index, row, and column within the row, all in packs.
template <typename Index>
struct Place {
    Index at, row, column;
    bool is_there;  // false past the last pack, where the position is clamped to that pack
};

template <typename Index>
struct Layout {
    Index total;
    Divisor<Index> packs;  // divides by the packs per row
    int64_t gate_stride, value_stride, grad_stride;  // elements from one row to the next, in packs

    // Returns the position of the thread's pack `u`.
    template <int V>
    __device__ __forceinline__ Place<Index> place(unsigned block, int u) const {
        const Index own = Index(block) * (kThreads * kEach<V>) + u * kThreads + threadIdx.x;
        const Index at = min(own, Index(total - 1)), row = packs.of(at);
        return {at, row, at - row * packs.by, own < total};
    }
};

template <int kAct, typename T, int V, typename Index>
__global__ void __launch_bounds__(kThreads) products(
    const Pack<T, V>* gate, const Pack<T, V>* value, Pack<T, V>* y,
    Layout<Index> layout) {
    let_next_begin_at_last();
    Place<Index> places[kEach<V>];
    #pragma unroll
    for (int u = 0; u < kEach<V>; ++u) places[u] = layout.template place<V>(blockIdx.x, u);
    await_earlier();
    Pack<T, V> gates[kEach<V>], values[kEach<V>];
    #pragma unroll
    for (int u = 0; u < kEach<V>; ++u) {
        gates[u] = gate[places[u].row * layout.gate_stride + places[u].column];
        values[u] = value[places[u].row * layout.value_stride + places[u].column];
    }
    #pragma unroll
    for (int u = 0; u < kEach<V>; ++u) {
        Pack<T, V> made;
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            made.v[k] = from_float<T>(activated<kAct>(to_float(gates[u].v[k])) * to_float(values[u].v[k]));
        }
        if (places[u].is_there) y[places[u].at] = made;
    }
}

// Computes the gradients. The first blocks start while the previous kernel still runs, and prefetch their inputs.
template <int kAct, typename T, int V, typename Index>
__global__ void __launch_bounds__(kThreads) slopes(
    const Pack<T, V>* dy, const Pack<T, V>* gate, const Pack<T, V>* value,
    Pack<T, V>* dgate, Pack<T, V>* dvalue, Layout<Index> layout) {
    Place<Index> places[kEach<V>];
    #pragma unroll
    for (int u = 0; u < kEach<V>; ++u) {
        places[u] = layout.template place<V>(block_from_last(), u);
        if (blockIdx.x >= kBlocksAtOnce) continue;
        bring_near(dy + places[u].at);
        bring_near(gate + places[u].row * layout.gate_stride + places[u].column);
        bring_near(value + places[u].row * layout.value_stride + places[u].column);
    }
    await_earlier();
    Pack<T, V> grown[kEach<V>], gates[kEach<V>], values[kEach<V>];
    #pragma unroll
    for (int u = 0; u < kEach<V>; ++u) {
        grown[u] = read_once(dy + places[u].at);
        gates[u] = gate[places[u].row * layout.gate_stride + places[u].column];
        values[u] = value[places[u].row * layout.value_stride + places[u].column];
    }
    #pragma unroll
    for (int u = 0; u < kEach<V>; ++u) {
        Pack<T, V> of_gate, of_value;
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float g = to_float(gates[u].v[k]), given = to_float(grown[u].v[k]);
            of_gate.v[k] = from_float<T>(given * to_float(values[u].v[k]) * slope<kAct>(g));
            of_value.v[k] = from_float<T>(given * activated<kAct>(g));
        }
        const auto to = places[u].row * layout.grad_stride + places[u].column;
        if (places[u].is_there && dgate != nullptr) dgate[to] = of_gate;
        if (places[u].is_there && dvalue != nullptr) dvalue[to] = of_value;
    }
}

// Returns the layout in packs. `grad_stride` is in elements, like the strides of the arguments.
template <int V, typename Index, typename Arguments>
Layout<Index> layout_of(const Arguments& args, int64_t grad_stride) {
    const int64_t packs = args.length / V;
    return {
        Index(args.rows * packs), Divisor<Index>(packs), args.gate_stride / V, args.value_stride / V, grad_stride / V};
}

// Returns the grid size for `total` packs, or 0 if it exceeds the largest grid.
template <int V>
unsigned grid_for(int64_t total) {
    const int64_t blocks = (total + kThreads * kEach<V> - 1) / (kThreads * kEach<V>);
    return blocks > kMaxGrid ? 0 : unsigned(blocks);
}

template <int kAct, typename T, int V, typename Index>
cudaError_t launch(const Forward& args) {
    const auto layout = layout_of<V, Index>(args, 0);
    const unsigned grid = grid_for<V>(layout.total);
    if (grid == 0) return cudaErrorInvalidValue;
    return launched(
        products<kAct, T, V, Index>, grid, kThreads, args.stream, static_cast<const Pack<T, V>*>(args.gate),
        static_cast<const Pack<T, V>*>(args.value), static_cast<Pack<T, V>*>(args.y), layout);
}

template <int kAct, typename T, int V, typename Index>
cudaError_t launch(const Backward& args) {
    const auto layout = layout_of<V, Index>(args, args.grad_stride);
    const unsigned grid = grid_for<V>(layout.total);
    if (grid == 0) return cudaErrorInvalidValue;
    return launched(
        slopes<kAct, T, V, Index>, grid, kThreads, args.stream, static_cast<const Pack<T, V>*>(args.dy),
        static_cast<const Pack<T, V>*>(args.gate), static_cast<const Pack<T, V>*>(args.value),
        static_cast<Pack<T, V>*>(args.dgate), static_cast<Pack<T, V>*>(args.dvalue), layout);
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
