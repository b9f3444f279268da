// Two matrices of float as two of fp16 each, for the tensor cores, from any layout and in one pass.
//
// Of a row's 32 neighbours in depth the largest finite value is scaled by a power of two into [2^13, 2^14), and each value
// split: hi = fp16(v), lo = fp16(v - hi). The sums of such a half of a stage are taken out of the tensor cores by
// themselves, so that they can be scaled back by themselves: nobody has to know a whole row's largest value, and what is
// small loses digits beside its 31 neighbours alone (2^-38 of the largest), not beside all of its row.
//
// hi and lo hold 22 bits, a float 24, and three products leave lo * lo out. What is missing is small, but where it has one
// sign it adds up over the depth. So it is given either: of b, each value goes up or down as a number drawn for its place
// says, as likely as it is near; of a, only what lies halfway does. The numbers are the same in every call.
//
// An infinity or NaN goes into lo, beside a hi of 1 with its sign (linear_fp32x3/csrc/split_sm90.cuh).
//
// Packed: [tile of 128 rows][64 of depth], each hi and lo, 16 KB, swizzled, and the factors that scale sums back, [2][128].
#pragma once

#include <algorithm>

#include "../../linear_fp32x3/csrc/split_sm90.cuh"
#include "sizes.cuh"

namespace kernelwright::matmul {

using linear::kDepth;
using linear::kHalfBytes;
using linear::kOperandBytes;
using linear::kTile;

constexpr int kSplitThreads = 256;
constexpr int kHalf = kDepth / 2;  // of depth, with one scale for each row
constexpr int kFactorBytes = 2 * kTile * static_cast<int>(sizeof(float));
constexpr int kPackedBytes = kOperandBytes + kFactorBytes;
constexpr int kSplit = kTile * kDepth / kSplitThreads;  // values of a thread

// An operand by its rows, m of a and n of b, and its depth.
struct Operand {
    const float* values;
    int64_t batch_step, row_step, depth_step;
    int64_t batch, rows, depth;  // batch is 1 where all share one matrix
    bool by_fours;               // four neighbours in depth can be loaded at once, where there are four
    bool by_rows;                // rows are neighbours in memory, and depths are not
    bool is_b;
    int64_t stages;
    unsigned char* packed;

    __host__ __device__ int64_t tiles() const { return ceil_div(rows, kTile); }
    __host__ __device__ int64_t blocks() const { return batch * tiles() * stages; }
    __host__ __device__ int64_t bytes() const { return blocks() * kPackedBytes; }
};

inline Operand operand_at(const float* values, int64_t batch, int64_t rows, int64_t depth, int64_t batch_step,
                          int64_t row_step, int64_t depth_step, bool is_b) {
    Operand made = {};
    made.values = values;
    made.batch_step = batch_step, made.row_step = row_step, made.depth_step = depth_step;
    made.batch = batch_step == 0 ? 1 : batch;
    made.rows = rows, made.depth = depth;
    made.by_fours = depth_step == 1 && row_step % 4 == 0 && batch_step % 4 == 0 &&
                    reinterpret_cast<uintptr_t>(values) % 16 == 0;
    made.by_rows = depth_step != 1 && row_step == 1;
    made.is_b = is_b;
    made.stages = linear::stages_of(depth, 1);
    return made;
}

struct Operands {
    Operand a, b;
    int* zeroed;  // for the kernel behind
    int64_t zeros;
};

// The power of two that brings values up to `largest` to where they are split; a float, whatever that is.
__device__ __forceinline__ int exponent_for(float largest) { return largest > 0.0f ? min(13 - ilogbf(largest), 126) : 0; }

__device__ __forceinline__ float scale_of(int exponent) { return __int_as_float((127 + exponent) << 23); }

// What sums are multiplied by, b's before a's: after b's they are at most 64 of b's largest values.
__device__ __forceinline__ float factor_of(int exponent, bool is_b) { return ldexpf(1.0f, (is_b ? -13 : 13) - exponent); }

// Where the factor of a column of b stands: those of 8 * j + 2 * q + i for one q and two j together, as a thread needs them.
__host__ __device__ inline int factor_place(int column) {
    return column / 16 * 16 + column % 8 / 2 * 4 + column / 8 % 2 * 2 + column % 2;
}

// 32 bits for a place.
__device__ __forceinline__ uint32_t drawn_for(uint32_t row, uint32_t depth) {
    uint32_t bits = row * 0x85ebca77u + depth * 0x9e3779b1u;
    bits ^= bits >> 15;
    return bits * 0x2c1b3c6du;
}

constexpr uint32_t kDropped = 0x1fff;  // bits of a float that fp16 has no room for

// The float of 11 bits above or below v.
__device__ __forceinline__ float either_way(float v, uint32_t drawn) {
    return __uint_as_float((__float_as_uint(v) + drawn) & ~kDropped);
}

// A finite value as b's are split.
__device__ __forceinline__ void split_drawn(float scaled, uint32_t drawn, __half& hi, __half& lo) {
    hi = __float2half_rn(either_way(scaled, drawn >> 19));
    lo = __float2half_rn(either_way(scaled - __half2float(hi), drawn & kDropped));
}

// By which a difference is multiplied so that what lies halfway between two fp16, and nothing else, goes another way.
__device__ __forceinline__ float nudge_of(uint32_t drawn) {
    constexpr float kNudge = 1.0f / 16384;
    return drawn >> 31 ? 1.0f + kNudge : 1.0f - kNudge;
}

__device__ __forceinline__ void split_nudged(float scaled, float nudge, __half& hi, __half& lo) {
    hi = __float2half_rn(scaled);
    lo = __float2half_rn((scaled - __half2float(hi)) * nudge);
}

// Eight neighbours in depth, of which the first is `depth`.
__device__ __forceinline__ void split_eight(const float* v, float scale, bool is_b, uint32_t row, uint32_t depth,
                                            linear::Halves& hi, linear::Halves& lo) {
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const uint32_t drawn = drawn_for(row, depth + i);
        if (is_b) {
            split_drawn(v[i] * scale, drawn, hi.v[i], lo.v[i]);
        } else {
            split_nudged(v[i] * scale, nudge_of(drawn), hi.v[i], lo.v[i]);
        }
        if (!isfinite(v[i])) hi.v[i] = __float2half_rn(copysignf(1.0f, v[i])), lo.v[i] = __float2half_rn(v[i]);
    }
}

// The largest finite size.
template <int COUNT>
__device__ __forceinline__ float largest_of(const float* v) {
    int bits = 0;
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) bits = max(bits, __float_as_int(v[i]) & 0x7fffffff);
    float largest = __int_as_float(bits);
    if (isfinite(largest)) return largest;
    largest = 0.0f;
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) largest = fmaxf(largest, linear::finite_size(v[i]));
    return largest;
}

struct Packed {
    __align__(16) unsigned char bytes[kOperandBytes];
    float factors[2][kTile];
};

// Eight values of a row of the tile, in their places.
__device__ __forceinline__ void put(Packed& tile, const Operand& of, int row, int64_t first_row, int piece, int64_t stage,
                                    const float* v, float largest) {
    const int exponent = exponent_for(largest);
    linear::Halves hi, lo;
    split_eight(v, scale_of(exponent), of.is_b, static_cast<uint32_t>(first_row + row),
                static_cast<uint32_t>(stage * kDepth + piece * 8), hi, lo);
    unsigned char* to = tile.bytes + matrix::swizzled(row, piece);
    *reinterpret_cast<linear::Halves*>(to) = hi;
    *reinterpret_cast<linear::Halves*>(to + kHalfBytes) = lo;
    if (piece % 4 == 0) tile.factors[piece / 4][of.is_b ? factor_place(row) : row] = factor_of(exponent, of.is_b);
}

// Rows are neighbours: a thread for each half of a row.
__device__ __forceinline__ void pack_by_rows(Packed& tile, const Operand& of, const float* matrix, int64_t first_row,
                                             int64_t stage) {
    const int row = threadIdx.x % kTile, half = threadIdx.x / kTile;
    const int64_t begin = stage * kDepth + half * kHalf;
    const float* from = matrix + first_row + row + begin * of.depth_step;
    float v[kHalf];
    const int64_t there = first_row + row < of.rows ? of.depth - begin : 0;
    if (there >= kHalf) {
        #pragma unroll
        for (int i = 0; i < kHalf; ++i) v[i] = from[i * of.depth_step];
    } else {
        #pragma unroll
        for (int i = 0; i < kHalf; ++i) v[i] = i < there ? from[i * of.depth_step] : 0.0f;
    }
    const float largest = largest_of<kHalf>(v);
    #pragma unroll
    for (int i = 0; i < kHalf; i += 8) put(tile, of, row, first_row, half * 4 + i / 8, stage, v + i, largest);
}

// Depths are neighbours, or nothing is: eight threads for a row.
__device__ __forceinline__ void pack_by_depth(Packed& tile, const Operand& of, const float* matrix, int64_t first_row,
                                              int64_t stage) {
    constexpr int kRows = kSplitThreads / 8;
    const int piece = threadIdx.x % 8;
    const int64_t begin = stage * kDepth + piece * 8;
    float v[kSplit];
    #pragma unroll
    for (int i = 0; i < kSplit; i += 8) {
        const int64_t row = first_row + i / 8 * kRows + threadIdx.x / 8;
        const float* from = matrix + row * of.row_step + begin * of.depth_step;
        const int64_t there = row < of.rows ? of.depth - begin : 0;
        if (of.by_fours && there >= 8) {
            const float4 first = reinterpret_cast<const float4*>(from)[0], second = reinterpret_cast<const float4*>(from)[1];
            v[i] = first.x, v[i + 1] = first.y, v[i + 2] = first.z, v[i + 3] = first.w;
            v[i + 4] = second.x, v[i + 5] = second.y, v[i + 6] = second.z, v[i + 7] = second.w;
        } else {
            #pragma unroll
            for (int j = 0; j < 8; ++j) v[i + j] = j < there ? from[j * of.depth_step] : 0.0f;
        }
    }
    #pragma unroll
    for (int i = 0; i < kSplit; i += 8) {
        float largest = largest_of<8>(v + i);
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
        put(tile, of, i / 8 * kRows + threadIdx.x / 8, first_row, piece, stage, v + i, largest);
    }
}

// A block makes one tile of one stage.
__global__ void __launch_bounds__(kSplitThreads) matmul_split(const __grid_constant__ Operands both) {
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * kSplitThreads + threadIdx.x;
    for (int64_t i = thread; i < both.zeros; i += static_cast<int64_t>(gridDim.x) * kSplitThreads) both.zeroed[i] = 0;
    __shared__ Packed tile;
    const bool is_a = blockIdx.x < both.a.blocks();
    const Operand& of = is_a ? both.a : both.b;
    const int64_t block = is_a ? blockIdx.x : blockIdx.x - both.a.blocks();
    const int64_t stage = block % of.stages, number = block / of.stages;
    const float* matrix = of.values + number / of.tiles() * of.batch_step;
    const int64_t first_row = number % of.tiles() * kTile;
    if (of.by_rows) {
        pack_by_rows(tile, of, matrix, first_row, stage);
    } else {
        pack_by_depth(tile, of, matrix, first_row, stage);
    }
    __syncthreads();
    auto* to = reinterpret_cast<float4*>(of.packed + block * kPackedBytes);
    for (int i = threadIdx.x; i < kPackedBytes / 16; i += kSplitThreads) to[i] = reinterpret_cast<const float4*>(&tile)[i];
}

// Both operands are of one depth; there may be no a.
inline cudaError_t split(const Operands& both, cudaStream_t stream) {
    const int64_t blocks = both.a.blocks() + both.b.blocks();
    if (blocks > kMostBlocks) return cudaErrorInvalidValue;
    matmul_split<<<static_cast<unsigned>(blocks), kSplitThreads, 0, stream>>>(both);
    return cudaGetLastError();
}

}  // namespace kernelwright::matmul
