// Short rows, each in the registers of L lanes, so that a warp handles several rows at once. The rows of a warp then
// share the fixed work of its instructions.
#pragma once

#include "ragged.cuh"
#include "stored.cuh"
#include "streamed.cuh"

namespace kernelwright {

constexpr int kLanesThreads = 256;  // maximum threads of a block
constexpr int kFewLanes = 64;       // block size for few rows, where larger blocks would leave SMs idle
constexpr int64_t kFewBlocks = 64;

constexpr int kNoEnd = 1 << 30;

// A lane's share of a row: packs 0, L, 2 * L, ... below `left`, counted from element `first` of the tensor. Unless rows
// are whole packs, the share also has one element at each end. It is empty for rows beyond the last.
template <bool kWhole, int L, int P, int V>
struct ShortShare {
    static constexpr int kPacked = P * V;
    static constexpr int kSize = kPacked + (kWhole ? 0 : 2);  // elements of the share, the ends last

    unsigned row;
    bool is_there, leads;  // leads: true in the first lane of the row
    int64_t first;
    int at;  // index of `first` within the row
    int left;
    int end[2];  // places of the end elements relative to `first`, or kNoEnd

    // Finds the share of this thread. There may be up to kMaxGrid rows.
    __device__ __forceinline__ ShortShare(int64_t rows, int length, unsigned block = blockIdx.x) {
        const int lane = threadIdx.x % L;
        row = block * (blockDim.x / L) + threadIdx.x / L;
        is_there = row < unsigned(rows);
        leads = is_there && lane == 0;
        const auto start = int64_t(uint64_t{row} * unsigned(length));
        const int before = kWhole ? 0 : min(-int(start) & (V - 1), length);
        const unsigned inside = unsigned(length - before);
        const int packs = int(inside / V), behind = int(inside % V);
        at = before + lane * V;
        first = start + at;
        left = is_there ? packs - lane : 0;
        if (kWhole) return;
        end[0] = is_there && lane < before ? lane - before - lane * V : kNoEnd;
        end[1] = is_there && lane < behind ? packs * V + lane - lane * V : kNoEnd;
        keep_found(end);
    }

    // Returns true if the row has element i of the share.
    __device__ __forceinline__ bool has(int i) const {
        return i < kPacked ? i / V * L < left : end[i - kPacked] != kNoEnd;
    }

    // Returns the share without packs and ends that begin at element `length` of the row or later.
    __device__ __forceinline__ ShortShare up_to(int length) const {
        ShortShare shorter = *this;
        shorter.left = min(left, (length - at + V - 1) / V);
        #pragma unroll
        for (int i = kPacked; i < kSize; ++i) {
            if (at + place(i) >= length) shorter.end[i - kPacked] = kNoEnd;
        }
        return shorter;
    }

    // Prefetches the share of x; called before `await_earlier`.
    template <typename T>
    __device__ __forceinline__ void bring_near(const T* x) const {
        const auto* from = reinterpret_cast<const Words<T, V>*>(x + first);
        #pragma unroll
        for (int u = 0; u < P; ++u) {
            if (u * L < left) kernelwright::bring_near(from + u * L);
        }
    }

    // Returns the offset of element i of the share, relative to `first`.
    __device__ __forceinline__ int place(int i) const {
        return i < kPacked ? i / V * L * V + i % V : end[i - kPacked];
    }

    template <typename T, typename Reads = Plain>
    __device__ __forceinline__ void load(const T* x, float outside, float (&tile)[kSize], const Reads& reads = {}) const {
        const T* from = x + first;
        Words<T, V> packs[P];
        T ends[2];
        #pragma unroll
        for (int u = 0; u < P; ++u) {
            packs[u] = Words<T, V>(from_float<T>(outside));
            if (u * L < left) packs[u] = reads.load(reinterpret_cast<const Words<T, V>*>(from) + u * L);
        }
        #pragma unroll
        for (int i = kPacked; i < kSize; ++i) ends[i - kPacked] = has(i) ? from[place(i)] : from_float<T>(outside);
        #pragma unroll
        for (int i = 0; i < kSize; ++i) tile[i] = to_float(i < kPacked ? packs[i / V].at(i % V) : ends[i - kPacked]);
    }

    // Stores value(i) for each element i that the row has.
    template <typename T, typename Value>
    __device__ __forceinline__ void store(T* y, Value value) const {
        T* to = y + first;
        #pragma unroll
        for (int u = 0; u < P; ++u) {
            Pack<T, V> pack;
            #pragma unroll
            for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(value(u * V + k));
            if (u * L < left) reinterpret_cast<Pack<T, V>*>(to)[u * L] = pack;
        }
        #pragma unroll
        for (int i = kPacked; i < kSize; ++i) {
            if (has(i)) to[place(i)] = from_float<T>(value(i));
        }
    }
};

// Returns 1 / z for a sum of at least 1, without the range checks of 1.0f / z.
__device__ __forceinline__ float inverse_of_sum(float z) {
    const float near = fast_reciprocal(z);
    return fmaf(near, fmaf(-z, near, 1.0f), near);
}

// Returns the maximum over the lanes of a row to each of them.
template <int L>
__device__ __forceinline__ float lanes_max(float mine) {
    if constexpr (L == kWarp) {
        return warp_max(mine);
    } else {
        #pragma unroll
        for (int offset = L / 2; offset > 0; offset /= 2) mine = fmaxf(mine, __shfl_xor_sync(0xffffffff, mine, offset));
        return mine;
    }
}

template <int L>
__device__ __forceinline__ float lanes_sum(float mine) {
    #pragma unroll
    for (int offset = L / 2; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffff, mine, offset);
    return mine;
}

// Returns the partition of a row. Replaces each x of the tile by exp(x - level_of(max)).
template <int L, typename T, int N>
__device__ __forceinline__ Partition lanes_partition(float (&tile)[N]) {
    const float max = lanes_max<L>(tile_max(tile));
    return {max, lanes_sum<L>(take_exponentials<T>(tile, level_of(max)))};
}

template <int L, int P>
struct ShortShape {
    static constexpr int kLanes = L, kPacks = P;
};

// Calls start(shape) for rows of up to kLongest packs, with up to kMost packs per lane; otherwise() for longer rows and
// where vectors cannot be loaded.
// kFine: adds shapes of three packs, each of which takes as long to build as one of four. Rows that are not whole packs
// have fewer shapes: the ends outweigh what a lane would save.
template <bool kWhole, int V, int kMost, int kLongest = 64, bool kFine = true, typename Start, typename Otherwise>
cudaError_t by_lanes(int64_t packs, Start start, Otherwise otherwise) {
    if constexpr (V > 1) {
        if constexpr (kWhole) {  // the end elements need more lanes
            if (packs <= 2) return start(ShortShape<2, 1>{});
        }
        if (packs <= 8) return start(ShortShape<8, 1>{});
        if (packs <= 16) return start(ShortShape<8, 2>{});
        if constexpr (kMost < 4) {
            if (packs <= 32) return start(ShortShape<16, 2>{});
            if (packs <= 64) return start(ShortShape<32, 2>{});
        } else {
            if constexpr (kFine) {
                if (packs <= 24) return start(ShortShape<8, 3>{});
            }
            if (packs <= 32) return start(ShortShape<8, 4>{});
            if (packs <= 64) return start(ShortShape<16, 4>{});
        }
        if constexpr (kLongest >= 128) {
            if constexpr (kFine && kWhole) {
                if (packs <= 96) return start(ShortShape<32, 3>{});
            }
            if (packs <= 128) return start(ShortShape<32, 4>{});
        }
        if constexpr (kLongest >= 256) {
            if constexpr (kWhole) {
                if (packs <= 192) return start(ShortShape<32, 6>{});
            }
            if (packs <= 256) return start(ShortShape<32, 8>{});
        }
    }
    return otherwise();
}

// Launches a kernel for rows of the given shape.
template <typename Shape, typename... Parameters, typename... Given>
cudaError_t launched_by_lanes(
    Shape, void (*kernel)(Parameters...), int64_t rows, cudaStream_t stream, Given... given) {
    const bool few = rows * Shape::kLanes < kFewBlocks * kLanesThreads;
    const int64_t threads = few ? kFewLanes : kLanesThreads, each = threads / Shape::kLanes;
    return launched(kernel, unsigned((rows + each - 1) / each), unsigned(threads), stream, given...);
}

}  // namespace kernelwright
