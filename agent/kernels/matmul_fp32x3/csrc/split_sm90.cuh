// Two matrices of float as two of fp16 each, packed as linear_fp32x3/csrc/split_sm90.cuh has it, from any layout.
//
// One kernel for both operands where a few rows fit into shared memory. Deeper ones take two: the first finds the largest
// values of pieces of rows, the second makes the tiles. A thread's values lie beside each other in depth or in rows,
// whichever is how the operand lies in memory, and change places in shared memory.
#pragma once

#include <algorithm>

#include "../../linear_fp32x3/csrc/split_sm90.cuh"
#include "sizes.cuh"

namespace kernelwright::matmul {

using linear::kDepth;
using linear::kHalfBytes;
using linear::kOperandBytes;
using linear::kTile;
using linear::Packed;

constexpr int kSplitThreads = 256;
constexpr int kPieceRows = 32;           // of rows whose largest values a block finds
constexpr int64_t kLeastPiece = 512;     // of depth
constexpr int64_t kMostPieces = 64;
constexpr int64_t kShallow = 1024;       // up to here a block keeps whole rows
constexpr int kKeepThreads = 256;
constexpr int kKept = 16;                // rows
constexpr int kPad = 4;                  // between rows that are kept, for the banks

// An operand by its rows, m of a and n of b, and its depth.
struct Operand {
    const float* values;
    int64_t batch_step, row_step, depth_step;
    int64_t batch, rows, depth;  // batch is 1 where all share one matrix
    bool by_fours;               // four neighbours in depth can be loaded at once, where there are four
    bool by_rows;                // rows are neighbours in memory, and depths are not
    Packed packed;
    float* largest;              // [pieces, batch, padded rows]
    int64_t piece, pieces;       // of depth
    int64_t stages;

    __host__ __device__ int64_t tiles() const { return ceil_div(rows, kTile); }
    __host__ __device__ int64_t all_rows() const { return batch * tiles() * kTile; }
    __host__ __device__ int64_t look_blocks() const { return all_rows() / kPieceRows * pieces; }
    __host__ __device__ int64_t pack_blocks() const { return batch * tiles() * stages; }
    __host__ __device__ int64_t bytes_of_tiles() const { return pack_blocks() * kOperandBytes; }
    __host__ __device__ int64_t bytes() const {
        return bytes_of_tiles() + all_rows() * int64_t{sizeof(int)} + all_rows() * pieces * int64_t{sizeof(float)};
    }
};

inline Operand operand_at(const float* values, int64_t batch, int64_t rows, int64_t depth, int64_t batch_step,
                          int64_t row_step, int64_t depth_step) {
    Operand made = {};
    made.values = values;
    made.batch_step = batch_step, made.row_step = row_step, made.depth_step = depth_step;
    made.batch = batch_step == 0 ? 1 : batch;
    made.rows = rows, made.depth = depth;
    made.by_fours = depth_step == 1 && row_step % 4 == 0 && batch_step % 4 == 0 &&
                    reinterpret_cast<uintptr_t>(values) % 16 == 0;
    made.by_rows = depth_step != 1 && row_step == 1;
    made.stages = linear::stages_of(depth, 1);
    made.piece = std::max(kLeastPiece, ceil_div(ceil_div(depth, kMostPieces), kDepth) * kDepth);
    made.pieces = ceil_div(depth, made.piece);
    return made;
}

// Lays the operand's tiles, exponents and largest values into memory that is 256-aligned.
inline void place(Operand& operand, void* memory) {
    auto* at = static_cast<unsigned char*>(memory);
    operand.packed.tiles = at;
    operand.packed.exponents = reinterpret_cast<int*>(at + operand.bytes_of_tiles());
    operand.largest = reinterpret_cast<float*>(operand.packed.exponents + operand.all_rows());
}

struct Operands {
    Operand a, b;
    int* zeroed;  // for the kernel behind
    int64_t zeros;
};

__device__ __forceinline__ void zero(const Operands& both, int threads) {
    const int64_t first = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
    for (int64_t i = first; i < both.zeros; i += static_cast<int64_t>(gridDim.x) * threads) both.zeroed[i] = 0;
}

// Four neighbours in depth of a row that begins at `row`; 0 past the end.
__device__ __forceinline__ float4 four_at(const Operand& of, const float* row, int64_t depth) {
    if (of.by_fours && depth + 4 <= of.depth) return *reinterpret_cast<const float4*>(row + depth);
    float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
    if (depth < of.depth) four.x = row[depth * of.depth_step];
    if (depth + 1 < of.depth) four.y = row[(depth + 1) * of.depth_step];
    if (depth + 2 < of.depth) four.z = row[(depth + 2) * of.depth_step];
    if (depth + 3 < of.depth) four.w = row[(depth + 3) * of.depth_step];
    return four;
}

__device__ __forceinline__ float largest_of(const float4& four) {
    return fmaxf(fmaxf(linear::finite_size(four.x), linear::finite_size(four.y)),
                 fmaxf(linear::finite_size(four.z), linear::finite_size(four.w)));
}

// Rows are neighbours: a lane for each of the 32, a warp for every eighth depth.
__device__ __forceinline__ void look_by_rows(const Operand& of, const float* matrix, int64_t first, int64_t begin,
                                             int64_t end, float* largest) {
    __shared__ float of_warp[kSplitThreads / 32][kPieceRows];
    const int warp = threadIdx.x / 32;
    const int64_t row = first + threadIdx.x % 32;
    float mine = 0.0f;
    if (row < of.rows) {
        #pragma unroll 8
        for (int64_t i = begin + warp; i < end; i += kSplitThreads / 32) {
            mine = fmaxf(mine, linear::finite_size(matrix[row + i * of.depth_step]));
        }
    }
    of_warp[warp][threadIdx.x % 32] = mine;
    __syncthreads();
    if (warp > 0) return;
    for (int other = 1; other < kSplitThreads / 32; ++other) mine = fmaxf(mine, of_warp[other][threadIdx.x]);
    largest[threadIdx.x] = mine;
}

// Depths are neighbours, or nothing is: a warp for each row.
__device__ __forceinline__ void look_by_depth(const Operand& of, const float* matrix, int64_t first, int64_t begin,
                                              int64_t end, float* largest) {
    for (int i = threadIdx.x / 32; i < kPieceRows; i += kSplitThreads / 32) {
        float mine = 0.0f;
        if (first + i < of.rows) {
            const float* row = matrix + (first + i) * of.row_step;
            const int64_t whole = of.by_fours ? end - 3 : 0;
            int64_t at = begin + threadIdx.x % 32 * 4;
            #pragma unroll 4
            for (; at < whole; at += 128) mine = fmaxf(mine, largest_of(*reinterpret_cast<const float4*>(row + at)));
            for (; at < end; at += 128) mine = fmaxf(mine, largest_of(four_at(of, row, at)));
        }
        for (int offset = 16; offset > 0; offset /= 2) mine = fmaxf(mine, __shfl_xor_sync(0xffffffffu, mine, offset));
        if (threadIdx.x % 32 == 0) largest[i] = mine;
    }
}

__global__ void __launch_bounds__(kSplitThreads) matmul_look(const __grid_constant__ Operands both) {
    const int64_t of_a = both.a.look_blocks();
    const bool is_a = blockIdx.x < of_a;
    const Operand& of = is_a ? both.a : both.b;
    const int64_t block = is_a ? blockIdx.x : blockIdx.x - of_a;
    const int64_t piece = block % of.pieces;
    const int64_t group = block / of.pieces;
    const int64_t of_batch = of.tiles() * (kTile / kPieceRows);
    const float* matrix = of.values + group / of_batch * of.batch_step;
    const int64_t first = group % of_batch * kPieceRows;
    const int64_t begin = piece * of.piece;
    const int64_t end = min(begin + of.piece, of.depth);
    float* largest = of.largest + piece * of.all_rows() + group * kPieceRows;
    if (of.by_rows) {
        look_by_rows(of, matrix, first, begin, end, largest);
    } else {
        look_by_depth(of, matrix, first, begin, end, largest);
    }
}

struct Tile {
    __align__(16) unsigned char bytes[kOperandBytes];
};

__device__ __forceinline__ void put(Tile& tile, int row, int piece, const float4 (&eight)[2], const linear::Scale& scale) {
    linear::Halves hi;
    linear::Halves lo;
    linear::split_four(eight[0], scale, hi.v, lo.v);
    linear::split_four(eight[1], scale, hi.v + 4, lo.v + 4);
    unsigned char* to = tile.bytes + matrix::swizzled(row, piece);
    *reinterpret_cast<linear::Halves*>(to) = hi;
    *reinterpret_cast<linear::Halves*>(to + kHalfBytes) = lo;
}

// A block makes one tile: 128 rows, 64 of depth. What was looked at last comes first: it is still in L2.
__global__ void __launch_bounds__(kSplitThreads) matmul_pack(const __grid_constant__ Operands both) {
    zero(both, kSplitThreads);
    __shared__ Tile tile;
    __shared__ linear::Scale scales[kTile];
    const int64_t of_a = both.a.pack_blocks();
    const int64_t number = gridDim.x - 1 - blockIdx.x;
    const bool is_a = number < of_a;
    const Operand& of = is_a ? both.a : both.b;
    const int64_t block = is_a ? number : number - of_a;
    const int64_t stage = block % of.stages;
    const int64_t first = block / of.stages * kTile;  // of all rows
    const float* matrix = of.values + block / of.stages / of.tiles() * of.batch_step;
    const int64_t first_row = block / of.stages % of.tiles() * kTile;
    if (threadIdx.x < kTile) {
        float largest = 0.0f;
        for (int64_t i = 0; i < of.pieces; ++i) largest = fmaxf(largest, of.largest[i * of.all_rows() + first + threadIdx.x]);
        const int exponent = largest > 0.0f ? 13 - ilogbf(largest) : 0;
        scales[threadIdx.x] = {ldexpf(1.0f, exponent / 2), ldexpf(1.0f, exponent - exponent / 2)};
        if (stage == 0) of.packed.exponents[first + threadIdx.x] = exponent;
    }
    __syncthreads();
    if (of.by_rows) {
        const int row = threadIdx.x % kTile;
        const float* from = matrix + first_row + row;
        const bool is_inside = first_row + row < of.rows && (stage + 1) * kDepth <= of.depth;
        #pragma unroll
        for (int piece = threadIdx.x / kTile; piece < kDepth / 8; piece += kSplitThreads / kTile) {
            const int64_t depth = stage * kDepth + piece * 8;
            float v[8];
            if (is_inside) {
                #pragma unroll
                for (int i = 0; i < 8; ++i) v[i] = from[(depth + i) * of.depth_step];
            } else {
                #pragma unroll
                for (int i = 0; i < 8; ++i) {
                    v[i] = first_row + row < of.rows && depth + i < of.depth ? from[(depth + i) * of.depth_step] : 0.0f;
                }
            }
            const float4 eight[2] = {{v[0], v[1], v[2], v[3]}, {v[4], v[5], v[6], v[7]}};
            put(tile, row, piece, eight, scales[row]);
        }
    } else {
        const int piece = threadIdx.x % 8;
        const int64_t depth = stage * kDepth + piece * 8;
        #pragma unroll
        for (int row = threadIdx.x / 8; row < kTile; row += kSplitThreads / 8) {
            float4 eight[2] = {};
            if (first_row + row < of.rows) {
                const float* from = matrix + (first_row + row) * of.row_step;
                eight[0] = four_at(of, from, depth);
                eight[1] = four_at(of, from, depth + 4);
            }
            put(tile, row, piece, eight, scales[row]);
        }
    }
    __syncthreads();
    auto* to = reinterpret_cast<float4*>(of.packed.tiles + block * kOperandBytes);
    for (int i = threadIdx.x; i < kOperandBytes / 16; i += kSplitThreads) {
        to[i] = reinterpret_cast<const float4*>(tile.bytes)[i];
    }
}

// Rows of an operand into shared memory, [kKept, pitch], with zeros past the depth and past the rows. The loops for what is
// inside ask nothing of a load, so that many are under way at once; rows past the end read the last one.
__device__ __forceinline__ void keep(const Operand& of, const float* matrix, int64_t first, float* kept, int pitch) {
    const int depth = static_cast<int>(of.depth), padded = static_cast<int>(of.stages) * kDepth;
    if (of.by_rows) {
        const int row = threadIdx.x % kKept;
        const bool is_row = first + row < of.rows;
        const float* from = matrix + min(first + row, of.rows - 1);
        float* to = kept + row * pitch;
        int i = threadIdx.x / kKept;
        #pragma unroll 16
        for (; i < depth; i += kKeepThreads / kKept) {
            const float v = from[i * of.depth_step];
            to[i] = is_row ? v : 0.0f;
        }
        for (; i < padded; i += kKeepThreads / kKept) to[i] = 0.0f;
        return;
    }
    const float4 zeros = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int row = threadIdx.x / 32; row < kKept; row += kKeepThreads / 32) {
        const bool is_row = first + row < of.rows;
        const float* from = matrix + min(first + row, of.rows - 1) * of.row_step;
        float* to = kept + row * pitch;
        int at = threadIdx.x % 32 * 4;
        const int whole = of.by_fours ? depth - 3 : 0;
        #pragma unroll 8
        for (; at < whole; at += 128) {
            const float4 four = *reinterpret_cast<const float4*>(from + at);
            *reinterpret_cast<float4*>(to + at) = is_row ? four : zeros;
        }
        for (; at < padded; at += 128) *reinterpret_cast<float4*>(to + at) = is_row ? four_at(of, from, at) : zeros;
    }
}

// A block splits kKept rows, whole.
__global__ void __launch_bounds__(kKeepThreads) matmul_split_rows(const __grid_constant__ Operands both, int pitch) {
    zero(both, kKeepThreads);
    extern __shared__ __align__(16) float kept[];
    __shared__ linear::Scale scales[kKept];
    const int64_t of_a = both.a.all_rows() / kKept;
    const bool is_a = blockIdx.x < of_a;
    const Operand& of = is_a ? both.a : both.b;
    const int64_t first_of_all = (is_a ? blockIdx.x : blockIdx.x - of_a) * kKept;
    const int64_t padded = of.tiles() * kTile;
    keep(of, of.values + first_of_all / padded * of.batch_step, first_of_all % padded, kept, pitch);
    __syncthreads();
    for (int row = threadIdx.x / 32; row < kKept; row += kKeepThreads / 32) {
        float mine = 0.0f;
        for (int i = threadIdx.x % 32 * 4; i < of.stages * kDepth; i += 128) {
            mine = fmaxf(mine, largest_of(*reinterpret_cast<const float4*>(kept + row * pitch + i)));
        }
        for (int offset = 16; offset > 0; offset /= 2) mine = fmaxf(mine, __shfl_xor_sync(0xffffffffu, mine, offset));
        if (threadIdx.x % 32 > 0) continue;
        const int exponent = mine > 0.0f ? 13 - ilogbf(mine) : 0;
        scales[row] = {ldexpf(1.0f, exponent / 2), ldexpf(1.0f, exponent - exponent / 2)};
        of.packed.exponents[first_of_all + row] = exponent;
    }
    __syncthreads();
    unsigned char* tile = of.packed.tiles + first_of_all / kTile * of.stages * kOperandBytes;
    const int first_row = static_cast<int>(first_of_all % kTile);
    for (int i = threadIdx.x; i < kKept * 8 * of.stages; i += kKeepThreads) {
        const int piece = i % 8, row = i / 8 % kKept, stage = i / 8 / kKept;
        const auto* from = reinterpret_cast<const float4*>(kept + row * pitch + stage * kDepth + piece * 8);
        linear::Halves hi;
        linear::Halves lo;
        linear::split_four(from[0], scales[row], hi.v, lo.v);
        linear::split_four(from[1], scales[row], hi.v + 4, lo.v + 4);
        unsigned char* to = tile + int64_t{stage} * kOperandBytes + matrix::swizzled(first_row + row, piece);
        *reinterpret_cast<linear::Halves*>(to) = hi;
        *reinterpret_cast<linear::Halves*>(to + kHalfBytes) = lo;
    }
}

inline cudaError_t split_rows(const Operands& both, int64_t stages, cudaStream_t stream) {
    const int pitch = static_cast<int>(stages) * kDepth + kPad;
    const int bytes = kKept * pitch * int{sizeof(float)};
    const int64_t blocks = (both.a.all_rows() + both.b.all_rows()) / kKept;
    if (blocks > kMostBlocks) return cudaErrorInvalidValue;
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(matmul_split_rows),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
    matmul_split_rows<<<static_cast<unsigned>(blocks), kKeepThreads, bytes, stream>>>(both, pitch);
    return cudaGetLastError();
}

// Both operands are of one depth; there may be no a.
inline cudaError_t split(const Operands& both, cudaStream_t stream) {
    if (both.b.depth <= kShallow) return split_rows(both, both.b.stages, stream);
    const int64_t look = both.a.look_blocks() + both.b.look_blocks();
    const int64_t pack = both.a.pack_blocks() + both.b.pack_blocks();
    if (std::max(look, pack) > kMostBlocks) return cudaErrorInvalidValue;
    matmul_look<<<static_cast<unsigned>(look), kSplitThreads, 0, stream>>>(both);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) return error;
    matmul_pack<<<static_cast<unsigned>(pack), kSplitThreads, 0, stream>>>(both);
    return cudaGetLastError();
}

}  // namespace kernelwright::matmul
