// b split with one read, where it is larger than L2: a block keeps 32 columns in registers over their whole depth, a warp each
// stage of them, until the columns' largest values are known.
#pragma once

#include "split_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kWholeWarps = 16;  // of a block, and the most stages
constexpr int kWholeThreads = 32 * kWholeWarps;
constexpr int kOfLane = kDepth;  // values: those of 32 rows of a stage are a warp's
constexpr int kStagedBytes = 2 * kPieceRows * kHalf * 2;  // hi and lo of half of them
constexpr int kWholeBytes = kWholeWarps * kStagedBytes;

// The 32 rows and the stage of a warp.
struct OfWarp {
    int64_t group, first_row, depth;  // of 32 rows each, of all matrices; of this matrix
    int in_block, stage;              // the group's number in the block
    bool is_there;

    __device__ __forceinline__ explicit OfWarp(const Operand& of) {
        const int warp = threadIdx.x / 32, stages = static_cast<int>(of.stages), groups = kWholeWarps / stages;
        in_block = warp / stages, stage = warp % stages;
        group = static_cast<int64_t>(blockIdx.x) * groups + in_block;
        first_row = group % (of.tiles() * (kTile / kPieceRows)) * kPieceRows;
        depth = static_cast<int64_t>(stage) * kDepth;
        const int tile = static_cast<int>(first_row / kTile);
        is_there = in_block < groups && group * kPieceRows < of.all_rows() && stage >= of.first_stage(tile) &&
                   stage < of.past_stage(tile);
    }
};

// Rows are neighbours: a lane has one of the 32.
__device__ __forceinline__ void load_row(float (&v)[kOfLane], const Operand& of, const OfWarp& at) {
    const int64_t row = at.first_row + threadIdx.x % 32, of_matrix = of.tiles() * (kTile / kPieceRows);
    const float* from = of.values + at.group / of_matrix * of.batch_step + row + at.depth * of.depth_step;
    load_run<kOfLane>(v, from, of.depth_step, at.is_there && row < of.rows ? of.depth - at.depth : 0);
    keep_part<kOfLane>(of, v, row, at.depth);
}

// Depths are, or nothing is: eight lanes share a row, every eighth four of them.
__device__ __forceinline__ void load_eights(float (&v)[kOfLane], const Operand& of, const OfWarp& at) {
    const int lane = threadIdx.x % 32;
    const int64_t depth = at.depth + lane % 8 * 8, of_matrix = of.tiles() * (kTile / kPieceRows);
    #pragma unroll
    for (int i = 0; i < kOfLane; i += 8) {
        const int64_t row = at.first_row + i / 2 + lane / 8;
        const float* from = of.values + at.group / of_matrix * of.batch_step + row * of.row_step + depth * of.depth_step;
        load_eight(v + i, from, of, at.is_there && row < of.rows ? of.depth - depth : 0);
        keep_part<8>(of, v + i, row, depth);
    }
}

// The largest of each row in the warp's stage.
__device__ __forceinline__ void note_rows(int* largest, const float (&v)[kOfLane], bool by_rows) {
    const int lane = threadIdx.x % 32;
    if (by_rows) {
        largest[lane] = __float_as_int(largest_of<kOfLane>(v));
        return;
    }
    #pragma unroll
    for (int i = 0; i < kOfLane; i += 8) {
        int mine = __float_as_int(largest_of<8>(v + i));
        for (int offset = 4; offset > 0; offset /= 2) mine = max(mine, __shfl_xor_sync(0xffffffffu, mine, offset));
        if (lane % 8 == 0) largest[i / 2 + lane / 8] = mine;
    }
}

template <bool DRAWN>
__device__ __forceinline__ void store_row(const Operand& of, const OfWarp& at, const float (&v)[kOfLane], int exponent,
                                          unsigned char* tile, int row, unsigned char* staged) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        int large = 0;
        #pragma unroll
        for (int i = 0; i < kHalf / 8; ++i) {
            linear::Halves hi, lo;
            linear::split_eight<DRAWN>(v + half * kHalf + i * 8, scale_of(exponent), static_cast<uint32_t>(at.first_row + lane),
                                       static_cast<uint32_t>(at.depth + half * kHalf + i * 8), hi, lo);
            unsigned char* to = staged + lane * 64 + (i ^ lane / 2 % 4) * 16;  // pieces change places: a column meets all banks
            *reinterpret_cast<linear::Halves*>(to) = hi;
            *reinterpret_cast<linear::Halves*>(to + kStagedBytes / 2) = lo;
            large += count_large(hi, true);
        }
        note_sparse(of, is_sparse(of, at.first_row + lane, at.depth + half * kHalf, large) ? 1 : 0);
        __syncwarp();
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int staged_row = i * 8 + lane / 4, piece = lane % 4;
            const unsigned char* from = staged + staged_row * 64 + (piece ^ staged_row / 2 % 4) * 16;
            unsigned char* to = tile + matrix::swizzled(row + staged_row, half * 4 + piece);
            *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
            *reinterpret_cast<float4*>(to + kHalfBytes) = *reinterpret_cast<const float4*>(from + kStagedBytes / 2);
        }
        __syncwarp();
    }
}

template <bool DRAWN>
__device__ __forceinline__ void store_eights(const Operand& of, const OfWarp& at, const float (&v)[kOfLane], const int* exponents,
                                             unsigned char* tile, int row) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < kOfLane; i += 8) {
        const int of_group = i / 2 + lane / 8;
        linear::Halves hi, lo;
        linear::split_eight<DRAWN>(v + i, scale_of(exponents[of_group]), static_cast<uint32_t>(at.first_row + of_group),
                                   static_cast<uint32_t>(at.depth + lane % 8 * 8), hi, lo);
        unsigned char* to = tile + matrix::swizzled(row + of_group, lane % 8);
        *reinterpret_cast<linear::Halves*>(to) = hi;
        *reinterpret_cast<linear::Halves*>(to + kHalfBytes) = lo;
        int large = count_large(hi, true);
        large += __shfl_xor_sync(0xffffffffu, large, 1);
        large += __shfl_xor_sync(0xffffffffu, large, 2);
        note_sparse(of, lane % 4 == 0 && is_sparse(of, at.first_row + of_group, at.depth + lane % 8 / 4 * kHalf, large) ? 1 : 0);
    }
}

template <bool DRAWN>
__global__ void __launch_bounds__(kWholeThreads, 1) matmul_split_whole(const __grid_constant__ Operands both) {
    extern __shared__ __align__(16) unsigned char staged[];
    __shared__ int largest[kWholeWarps][kPieceRows], exponents[kWholeWarps][kPieceRows];
    const Operand& of = both.b;
    await_earlier();
    take_over<kWholeThreads>(both);
    const OfWarp at(of);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float v[kOfLane];
    if (of.by_rows) {
        load_row(v, of, at);
    } else {
        load_eights(v, of, at);
    }
    note_rows(largest[warp], v, of.by_rows);
    __syncthreads();
    if (at.stage == 0) {
        int mine = 0;
        for (int i = warp; i < min(warp + static_cast<int>(of.stages), kWholeWarps); ++i) mine = max(mine, largest[i][lane]);
        exponents[at.in_block][lane] = exponent_for(mine);
        const bool is_one = at.in_block < kWholeWarps / of.stages && at.group * kPieceRows < of.all_rows();
        if (is_one) of.exponents[at.group * kPieceRows + lane] = exponent_for(mine);
    }
    __syncthreads();
    if (!at.is_there) return;
    const int64_t tile = at.group / (kTile / kPieceRows);
    unsigned char* packed = of.packed + (tile * of.stages + at.stage) * kOperandBytes;
    const int row = static_cast<int>(at.group % (kTile / kPieceRows)) * kPieceRows;
    if (of.by_rows) {
        store_row<DRAWN>(of, at, v, exponents[at.in_block][lane], packed, row, staged + warp * kStagedBytes);
    } else {
        store_eights<DRAWN>(of, at, v, exponents[at.in_block], packed, row);
    }
}

// Where the second read of two would not come from L2.
inline bool splits_whole(const Operand& b) {
    constexpr int64_t kReadFromL2 = 40 << 20;
    return b.stages <= kWholeWarps && b.batch * b.rows * b.depth * int64_t{sizeof(float)} > kReadFromL2;
}

template <bool DRAWN>
cudaError_t launch_split_whole(const Operands& both, cudaStream_t stream) {
    const auto kernel = matmul_split_whole<DRAWN>;
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   kWholeBytes);
    if (error != cudaSuccess) return error;
    const int64_t blocks = ceil_div(both.b.all_rows() / kPieceRows, kWholeWarps / both.b.stages);
    if (blocks > kMostBlocks) return cudaErrorInvalidValue;
    return launched_with(kernel, static_cast<unsigned>(blocks), kWholeThreads, kWholeBytes, stream, both);
}

// Both, with b read once.
inline cudaError_t split_whole(const Operands& both, cudaStream_t stream) {
    const cudaError_t error = begin(both, 0, stream);
    if (error != cudaSuccess) return error;
    return both.b.drawn ? launch_split_whole<true>(both, stream) : launch_split_whole<false>(both, stream);
}

}  // namespace kernelwright::matmul
