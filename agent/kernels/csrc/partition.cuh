// Maximum of a set of elements and the sum of exp(x - maximum) over it, computed in one pass.
//
// Online softmax: Milakov and Gimelshein, arXiv 1805.02867. Tensors are contiguous [outer, length, inner], reduced over
// `length`. With inner == 1 a block handles a row. Otherwise a warp spans 32 neighbouring columns, so that every load
// is coalesced, and the warps of a block share the length.
#pragma once

#include <cmath>

#include "block.cuh"
#include "streamed.cuh"

namespace kernelwright {

constexpr int kTile = 16;       // elements of a row that a thread has in flight
constexpr int kColumnTile = 4;  // elements of a column that a thread has in flight
constexpr int kColumnWarps = 8;

// Maximum of a set of elements, and the sum of exp(x - level_of(max)) over it.
struct Partition {
    float max;
    float sum;
};

// Returns the value subtracted in exponents: max, or 0 for an infinite max, where the difference would be NaN.
__device__ __forceinline__ float level_of(float max) { return isinf(max) ? 0.0f : max; }

#ifndef KW_PORTABLE_ONLY
// Returns 2^x; flushes subnormals to 0.
__device__ __forceinline__ float fast_exp2(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// Returns 1 / x with an error of at most 1 ulp; the reciprocal of a subnormal is an infinity.
__device__ __forceinline__ float fast_reciprocal(float x) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
}
#else
__device__ __forceinline__ float fast_exp2(float x) { return exp2f(x); }
__device__ __forceinline__ float fast_reciprocal(float x) { return 1.0f / x; }
#endif

// Returns exp(x) for elements stored as T. For 16-bit types, with twice the elements per byte, instructions limit the
// speed, and neither the last two bits of the float nor subnormals matter.
template <typename T>
__device__ __forceinline__ float exp_for(float x) {
    constexpr float kLog2E = 1.44269504f;
    return sizeof(T) == sizeof(float) ? expf(x) : fast_exp2(x * kLog2E);
}

// Merges several partitions. fmaxf ignores NaN; a NaN still reaches the sum.
template <int N>
__device__ __forceinline__ Partition merge(const Partition (&some)[N]) {
    float max = some[0].max, sum = 0.0f;
    #pragma unroll
    for (int i = 1; i < N; ++i) max = fmaxf(max, some[i].max);
    const float level = level_of(max);
    #pragma unroll
    for (const Partition& one : some) sum += one.sum * expf(one.max - level);
    return {max, sum};
}

#ifndef KW_PORTABLE_ONLY
// Returns the maximum over a warp. With NaN the result is undefined, but the NaN is in the sum. Floats compare like
// integers once negative ones have the bits below their sign inverted, and for integers there is a single reduction
// instruction.
__device__ __forceinline__ float warp_max(float mine) {
    const auto turned = [](int bits) { return bits ^ ((bits >> 31) & 0x7fffffff); };
    return __int_as_float(turned(__reduce_max_sync(0xffffffff, turned(__float_as_int(mine)))));
}
#else
__device__ __forceinline__ float warp_max(float mine) {
    #pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) mine = fmaxf(mine, __shfl_xor_sync(0xffffffff, mine, offset));
    return mine;
}
#endif

__device__ __forceinline__ float warp_sum(float mine) {
    #pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffff, mine, offset);
    return mine;
}

__device__ __forceinline__ Partition warp_merge(Partition mine) {
    const float max = warp_max(mine.max);
    return {max, warp_sum(mine.sum * expf(mine.max - level_of(max)))};
}

// Overloads of merge and warp_merge for plain sums.
template <int N>
__device__ __forceinline__ float merge(const float (&some)[N]) {
    float sum = 0.0f;
    #pragma unroll
    for (float one : some) sum += one;
    return sum;
}
__device__ __forceinline__ float warp_merge(float mine) { return warp_sum(mine); }

// Returns the identity of `merge` for the argument's type.
__device__ __forceinline__ Partition nothing_for(Partition) { return {-INFINITY, 0.0f}; }
__device__ __forceinline__ float nothing_for(float) { return 0.0f; }

// Merges over the block; every thread gets the result. `of_warp` is shared memory for kMaxWarps values.
template <typename State>
__device__ __forceinline__ State block_merge(State mine, State* of_warp) {
    mine = warp_merge(mine);
    const int warps = int(blockDim.x) / kWarp;
    if (warps == 1) return mine;
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
    __syncthreads();
    const int lane = int(threadIdx.x) % kWarp;
    return warp_merge(lane < warps ? of_warp[lane] : nothing_for(mine));
}

// Loads the packs 0, step, 2 * step, ... below `left`, counted from x, `stride` packs apart. Packs beyond `left` become
// -inf, which adds nothing. `left` may be negative, but the row must have a pack: all loads are issued first, and those
// beyond `left` read the last pack.
template <typename T, int V, int N, typename Reads = Plain>
__device__ __forceinline__ void load_tile(
    const Pack<T, V>* x, int64_t left, int step, int64_t stride, float (&tile)[N], const Reads& reads = {}) {
    constexpr int kPacks = N / V;
    const int here = left < kPacks * step ? int(left) : kPacks * step;
    Pack<T, V> packs[kPacks];
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) packs[u] = reads.load(x + (u * step < here ? u * step : here - 1) * stride);
    #pragma unroll
    for (int i = 0; i < N; ++i) tile[i] = to_float(packs[i / V].v[i % V]);
    if (here > (kPacks - 1) * step) return;
    #pragma unroll
    for (int i = 0; i < N; ++i) tile[i] = i / V * step < here ? tile[i] : -INFINITY;
}

template <int N>
__device__ __forceinline__ float tile_max(const float (&tile)[N], float least = -INFINITY) {
    #pragma unroll
    for (int i = 0; i < N; ++i) least = fmaxf(least, tile[i]);
    return least;
}

// Replaces each x of the tile by exp(x - level); returns their sum.
template <typename T, int N>
__device__ __forceinline__ float take_exponentials(float (&tile)[N], float level) {
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < N; ++i) sum += tile[i] = exp_for<T>(tile[i] - level);
    return sum;
}

// Merges a tile into `before`. Replaces each x of the tile by exp(x - level_of(max)).
template <typename T, int N>
__device__ __forceinline__ Partition add_tile(Partition before, float (&tile)[N]) {
    const float max = tile_max(tile, before.max), level = level_of(max);
    return {max, before.sum * expf(before.max - level) + take_exponentials<T>(tile, level)};
}

// Returns the partition of a thread's share, N elements at a time: packs begin, begin + step, ... below end, `stride`
// packs apart.
template <int N, typename T, int V, typename Reads = Plain>
__device__ __forceinline__ Partition partition(
    const Pack<T, V>* x, int64_t begin, int64_t end, int step, int64_t stride, const Reads& reads = {}) {
    Partition total = {-INFINITY, 0.0f};
    for (int64_t i = begin; i < end; i += N / V * step) {
        float tile[N];
        load_tile(x + i * stride, end - i, step, stride, tile, reads);
        total = add_tile<T>(total, tile);
    }
    return total;
}

// Position of this thread in a column kernel; the blocks of the grid are [outer][groups of 32 columns].
struct Column {
    int64_t base;  // offset of the column's first element
    bool inside;
};

__device__ __forceinline__ Column column_here(int64_t length, int64_t inner, unsigned block = blockIdx.x) {
    const int64_t groups = (inner + kWarp - 1) / kWarp;
    const int64_t column = block % groups * kWarp + threadIdx.x;
    return {block / groups * length * inner + column, column < inner};
}

// Merges over the threads of a column; each of them gets the result.
__device__ __forceinline__ Partition column_merge(Partition mine, Partition (*of_warp)[kWarp]) {
    of_warp[threadIdx.y][threadIdx.x] = mine;
    __syncthreads();
    float max = of_warp[0][threadIdx.x].max;
    for (int warp = 1; warp < int(blockDim.y); ++warp) max = fmaxf(max, of_warp[warp][threadIdx.x].max);
    const float level = level_of(max);
    float sum = 0.0f;
    for (int warp = 0; warp < int(blockDim.y); ++warp) {
        const Partition other = of_warp[warp][threadIdx.x];
        sum += other.sum * expf(other.max - level);
    }
    return {max, sum};
}

// Returns the partition of this thread's column.
template <typename T>
__device__ __forceinline__ Partition column_partition(
    const T* x, Column here, int64_t length, int64_t inner, Partition (*of_warp)[kWarp]) {
    Partition mine = {-INFINITY, 0.0f};
    if (here.inside) {
        const auto* top = reinterpret_cast<const Pack<T, 1>*>(x) + here.base;
        mine = partition<kColumnTile>(top, threadIdx.y, length, blockDim.y, inner);
    }
    return column_merge(mine, of_warp);
}

inline int64_t column_blocks(int64_t outer, int64_t inner) { return outer * ((inner + kWarp - 1) / kWarp); }

inline dim3 column_block(int64_t length) {
    return dim3(kWarp, unsigned(std::min<int64_t>(length, kColumnWarps)));
}

}  // namespace kernelwright
