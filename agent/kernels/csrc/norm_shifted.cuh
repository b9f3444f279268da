// LayerNorm and RMSNorm, forward, of rows that begin anywhere, as those of an odd length do, or of sums of two of them.
//
// The threads of a block read and write a row in packs that begin on 16 bytes; of what these leave at its ends, lanes of
// the first warp take an element each. Weight and bias begin on 16 bytes themselves, so that a pack's lie across two.
#pragma once

#include "norm_held.cuh"

namespace kernelwright {

constexpr int kShiftedPacks = 2;  // of a row, in one thread's registers
constexpr int kShiftedThreads = 512;

// Whether the parameters are asked for with the row, and blocks that stand on an SM then: in float32, where fewer elements
// take as many registers, they come late.
template <bool kCentred, bool kSum, typename T>
constexpr bool kShiftedEarly = sizeof(T) < sizeof(float) || !(kCentred || kSum);
template <typename T>
constexpr int kShiftedBlocks = sizeof(T) < sizeof(float) ? 2 : 3;

// Elements of a row that has a whole pack, and of one that a block holds.
template <typename T>
constexpr int64_t kLeastShifted = 3 * kVector<T>;
template <typename T>
constexpr int64_t kMostShifted = kShiftedPacks * kShiftedThreads * kVector<T>;

// Whether all that are given begin at the same place of 16 bytes as x.
template <typename... Tensors>
bool begin_alike(const void* x, const Tensors*... tensors) {
    const auto place = [](const void* tensor) { return reinterpret_cast<uintptr_t>(tensor) % kVectorBytes; };
    return ((tensors == nullptr || place(tensors) == place(x)) && ...);
}

// The V elements of two neighbouring packs that begin with the first's element `offset`.
template <typename T, int V>
__device__ __forceinline__ Pack<T, V> pack_across(Pack<T, V> first, Pack<T, V> second, int offset) {
    constexpr int kWords = int(sizeof(first) / sizeof(uint32_t)), kEach = V / kWords;
    uint32_t words[2 * kWords];
    memcpy(words, &first, sizeof first);
    memcpy(words + kWords, &second, sizeof second);
    const int whole = offset / kEach;
    #pragma unroll
    for (int i = 0; i < kWords + 2; ++i) words[i] = whole & 2 ? words[i + 2] : words[i];
    #pragma unroll
    for (int i = 0; i < kWords + 1; ++i) words[i] = whole & 1 ? words[i + 1] : words[i];
    if (kEach == 2) {
        const unsigned halves = offset % kEach == 0 ? 0x3210 : 0x5432;
        #pragma unroll
        for (int i = 0; i < kWords; ++i) words[i] = __byte_perm(words[i], words[i + 1], halves);
    }
    Pack<T, V> across;
    memcpy(&across, words, sizeof across);
    return across;
}

// What of a row lies in packs of V elements.
template <int V>
struct ShiftedRow {
    int before;  // elements in front of them, and where in a pack of the parameters each of them begins
    int packs;
    int behind;  // the first element behind them

    // Of a row that begins with element `place` of memory. The last pack has two whole packs of parameters too.
    __device__ __forceinline__ ShiftedRow(int place, int length) {
        before = -place & (V - 1);
        packs = (length - before) / V;
        if (before != 0 && (packs + 1) * V > length) packs -= 1;
        behind = before + packs * V;
    }

    // A thread's element at the ends, or -1: there are fewer than half a warp at each.
    __device__ __forceinline__ int end(int thread, int length) const {
        const int place = thread < kWarp / 2 ? thread : behind + thread - kWarp / 2;
        return thread < kWarp && place < (thread < kWarp / 2 ? before : length) ? place : -1;
    }

    // Elements that the threads of a warp have, of which `first` is the first; thread and pack lie `step` apart.
    template <int kPacks>
    __device__ __forceinline__ int count(int first, int step, int length) const {
        int all = first == 0 ? length - packs * V : 0;
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) all += min(max(packs - first - u * step, 0), kWarp) * V;
        return all;
    }
};

// V elements of weight or bias from element `offset` of pack `at` on. The first pack is asked for early and the second,
// which lies in L1 by then, since a neighbour asked for it, late: both together would take registers that rows need.
template <typename T, int V>
struct Shifted {
    Pack<T, V> pack;

    // `otherwise` where there are none.
    __device__ __forceinline__ void load(const T* values, int at, float otherwise) {
        pack = filled<T, V>(otherwise);
        if (values != nullptr) pack = reinterpret_cast<const Pack<T, V>*>(values)[at];
    }

    __device__ __forceinline__ void complete(const T* values, int at, int offset) {
        if (values == nullptr || offset == 0) return;
        const Pack<T, V> second = reinterpret_cast<const Pack<T, V>*>(values)[at + 1];
        pack = pack_across(pack, second, offset);
        keep_as_stored(pack);
    }
};

constexpr size_t kLeastSignalled = 2048;  // bytes of a row whose blocks let their backward begin

// RMSNorm has no bias; `residual` and `added` are null where kSum is false.
template <bool kCentred, bool kSum, typename T>
__global__ void __launch_bounds__(kShiftedThreads, kShiftedBlocks<T>) norm_shifted(
    const T* x, const T* residual, const T* weight, const T* bias, T* __restrict__ y, T* __restrict__ added,
    float* __restrict__ means, float* __restrict__ rstds, int length, float share, float eps) {
    await_earlier();
    // A block's signal takes some 1.3 ns of the GPU: as long as memory takes for 3 KB.
    if (length * sizeof(T) >= kLeastSignalled) let_next_begin();
    constexpr int V = kVector<T>, kPacks = kShiftedPacks;
    constexpr bool kEarly = kShiftedEarly<kCentred, kSum, T>;
    using Packed = Pack<T, V>;
    __shared__ float4 of_warp[kMaxWarps];
    const int64_t begin = int64_t{blockIdx.x} * length;
    const int thread = int(threadIdx.x), step = int(blockDim.x);
    const ShiftedRow<V> row(int(reinterpret_cast<uintptr_t>(x + begin) / sizeof(T)), length);
    const int end = row.end(thread, length), before = row.before;
    const auto is_there = [&](int u) { return thread + u * step < row.packs; };
    // Those that are not there read the last.
    const auto place = [&](int u) { return min(thread + u * step, row.packs - 1); };
    const auto packs_of = [&](auto* tensor) {
        using Element = std::remove_pointer_t<decltype(tensor)>;
        using Packs = std::conditional_t<std::is_const_v<Element>, const Packed, Packed>;
        return reinterpret_cast<Packs*>(tensor + begin + before);
    };
    Packed tile[kPacks], other[kPacks];
    Shifted<T, V> scale[kPacks], shift[kPacks];
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        tile[u] = packs_of(x)[place(u)];
        if (kSum) other[u] = packs_of(residual)[place(u)];
    }
    float at_end = 0.0f;
    if (end >= 0) {
        at_end = to_float(x[begin + end]);
        if (kSum) at_end += to_float(residual[begin + end]);
    }
    const auto load = [&](int u) {
        scale[u].load(weight, place(u), 1.0f);
        if (kCentred) shift[u].load(bias, place(u), 0.0f);
    };
    const auto complete = [&](int u) {
        scale[u].complete(weight, place(u), before);
        if (kCentred) shift[u].complete(bias, place(u), before);
    };
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        if (kEarly) load(u);
    }
    if (kSum) {
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            tile[u] = total(tile[u], other[u]);
            if (is_there(u)) packs_of(added)[thread + u * step] = tile[u];
        }
        if (end >= 0) {
            const T sum = from_float<T>(at_end);
            added[begin + end] = sum;
            at_end = to_float(sum);
        }
    }
    Pack<float, V> kept[kPacks];
    float pivot = sizeof(T) == sizeof(float) ? at_end : 0.0f, sum = 0.0f, squares = 0.0f;
    const auto count = [&] { return row.template count<kPacks>(thread / kWarp * kWarp, step, length); };
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        kept[u] = widened(tile[u]);
        if (!kCentred || (u > 0 && sizeof(T) < sizeof(float))) continue;
        float of_pack = 0.0f;
        #pragma unroll
        for (int k = 0; k < V; ++k) of_pack += kept[u].v[k];
        pivot += is_there(u) ? of_pack : 0.0f;
    }
    pivot = kCentred ? pivot_of_warp<T, V>(pivot, count()) : 0.0f;
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        float of_pack = 0.0f, squares_of_pack = 0.0f;
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            if (kCentred) of_pack += kept[u].v[k] -= pivot;
            squares_of_pack = fmaf(kept[u].v[k], kept[u].v[k], squares_of_pack);
        }
        sum += is_there(u) ? of_pack : 0.0f;
        squares += is_there(u) ? squares_of_pack : 0.0f;
    }
    if (end >= 0) {
        at_end -= pivot;
        sum += at_end;
        squares = fmaf(at_end, at_end, squares);
    }
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        if (kEarly) complete(u);
    }
    float mean = 0.0f;
    if (kCentred) {
        const Moments of_row = block_moments(sum, squares, pivot, count(), share, of_warp);
        mean = of_row.mean;
        squares = of_row.m2;
    } else {
        squares = block_sum(squares, reinterpret_cast<float*>(of_warp));
    }
    const float rstd = rsqrtf(squares * share + eps), offset = kCentred ? (pivot - mean) * rstd : 0.0f;
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        if (!kEarly) {
            load(u);
            complete(u);
        }
        const Pack<float, V> scales = widened(scale[u].pack), shifts = widened(shift[u].pack);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float normal = fmaf(kept[u].v[k], rstd, offset);
            kept[u].v[k] = kCentred ? fmaf(normal, scales.v[k], shifts.v[k]) : normal * scales.v[k];
        }
        if (is_there(u)) packs_of(y)[thread + u * step] = narrowed<T>(kept[u]);
    }
    if (end >= 0) {
        const float end_scale = weight == nullptr ? 1.0f : to_float(weight[end]);
        const float end_shift = !kCentred || bias == nullptr ? 0.0f : to_float(bias[end]);
        y[begin + end] = from_float<T>(fmaf(fmaf(at_end, rstd, offset), end_scale, end_shift));
    }
    if (rstds != nullptr && thread == 0) {
        if (kCentred) means[blockIdx.x] = mean;
        rstds[blockIdx.x] = rstd;
    }
}

// Whether norm_shifted takes such rows.
template <typename T>
bool is_shifted(const AddRowForward& args) {
    return args.length >= kLeastShifted<T> && args.length <= kMostShifted<T> && aligned(args.weight) &&
           aligned(args.bias) && begin_alike(args.x, args.residual, args.y, args.added) &&
           (sizeof(T) == sizeof(float) || args.param_dtype != kFloat32);
}

template <bool kCentred, bool kSum, typename T>
cudaError_t launch_shifted(const AddRowForward& args) {
    const unsigned threads = block_for(args.length / kVector<T>, kShiftedPacks);
    return launched(
        norm_shifted<kCentred, kSum, T>, unsigned(args.rows), threads, args.stream, static_cast<const T*>(args.x),
        static_cast<const T*>(args.residual), static_cast<const T*>(args.weight), static_cast<const T*>(args.bias),
        static_cast<T*>(args.y), static_cast<T*>(args.added), args.mean, args.rstd, int(args.length),
        1.0f / float(args.length), float(args.eps));
}

}  // namespace kernelwright
