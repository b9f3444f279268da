// LayerNorm and RMSNorm forward for rows of any alignment, such as those of odd length, also of x + residual.
//
// The threads of a block read and write 16-byte aligned packs. Lanes of the first warp handle one element each of those
// in front of and behind a row's packs. Weight and bias are aligned differently, so that a pack of theirs straddles
// two.
#pragma once

#include "norm_held.cuh"

namespace kernelwright {

constexpr int kShiftedPacks = 2;  // packs of a row in a thread's registers
constexpr int kShiftedThreads = 512;

// kShiftedEarly: loads the parameters together with the row. For most float32 rows they come late, since fewer elements
// take as many registers. kShiftedBlocks: blocks per SM.
template <bool kCentred, bool kSum, typename T>
constexpr bool kShiftedEarly = sizeof(T) < sizeof(float) || !(kCentred || kSum);
template <typename T>
constexpr int kShiftedBlocks = sizeof(T) < sizeof(float) ? 2 : 3;

// Minimum and maximum number of elements of a row for norm_shifted: it has a whole pack, and a block can hold it.
template <typename T>
constexpr int64_t kLeastShifted = 3 * kVector<T>;
template <typename T>
constexpr int64_t kMostShifted = kShiftedPacks * kShiftedThreads * kVector<T>;

// Returns true if all tensors that are not null have the same offset from a 16-byte boundary as x.
template <typename... Tensors>
bool begin_alike(const void* x, const Tensors*... tensors) {
    const auto place = [](const void* tensor) { return reinterpret_cast<uintptr_t>(tensor) % kVectorBytes; };
    return ((tensors == nullptr || place(tensors) == place(x)) && ...);
}

// Returns V consecutive elements from two neighbouring packs, starting at element `offset` of the first.
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

// Split of a row into its aligned packs and the elements in front of and behind them.
template <int V>
struct ShiftedRow {
    int before;  // elements in front; also the offset of each pack in the parameters' packs
    int packs;
    int behind;  // index of the first element behind the packs

    // `place` is the row's first element, counted from address 0. Even the last pack must have two whole packs of
    // parameters.
    __device__ __forceinline__ ShiftedRow(int place, int length) {
        before = -place & (V - 1);
        packs = (length - before) / V;
        if (before != 0 && (packs + 1) * V > length) packs -= 1;
        behind = before + packs * V;
    }

    // Returns the thread's element at the ends, or -1. Each end has fewer elements than half a warp.
    __device__ __forceinline__ int end(int thread, int length) const {
        const int place = thread < kWarp / 2 ? thread : behind + thread - kWarp / 2;
        return thread < kWarp && place < (thread < kWarp / 2 ? before : length) ? place : -1;
    }

    // Returns the number of elements of the warp whose first thread is `first`. Packs of a thread lie `step` apart.
    template <int kPacks>
    __device__ __forceinline__ int count(int first, int step, int length) const {
        int all = first == 0 ? length - packs * V : 0;
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) all += min(max(packs - first - u * step, 0), kWarp) * V;
        return all;
    }
};

// V elements of weight or bias, starting at element `offset` of pack `at`. The first pack is loaded early. The second
// is loaded late, when it is in L1 because a neighbour has loaded it: both at once would take registers that the rows
// need.
template <typename T, int V>
struct Shifted {
    Pack<T, V> pack;

    // Loads the first pack, or fills it with `otherwise` if values is null.
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

constexpr size_t kLeastSignalled = 2048;  // minimum bytes of a row for blocks to signal early

// Computes LayerNorm, or RMSNorm without kCentred, which has no bias. `residual` and `added` are null unless kSum.
template <bool kCentred, bool kSum, typename T>
__global__ void __launch_bounds__(kShiftedThreads, kShiftedBlocks<T>) norm_shifted(
    const T* x, const T* residual, const T* weight, const T* bias, T* __restrict__ y, T* __restrict__ added,
    float* __restrict__ means, float* __restrict__ rstds, int length, float share, float eps) {
    await_earlier();
    // A block's signal costs some 1.3 ns of GPU time, as much as 3 KB of memory traffic.
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
    // Threads without a pack read the row's last pack.
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

// Returns true if norm_shifted supports these rows.
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
