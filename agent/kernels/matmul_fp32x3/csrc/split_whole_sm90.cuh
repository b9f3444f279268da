// b split with one read, on sm_90: a cluster of blocks keeps 32 columns in registers over their whole depth, a warp each stage
// of them, until all know the columns' largest values.
#pragma once

#include "../../csrc/warpgroups_sm90.cuh"
#include "split_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kWholeWarps = 16;
constexpr int kWholeThreads = 32 * kWholeWarps;
constexpr int kMostTogether = 8;   // blocks of a cluster
constexpr int kOfLane = kDepth;    // values: those of 32 rows of a stage are a warp's
constexpr int kStagedBytes = 2 * kPieceRows * kHalf * 2;  // hi and lo of half of them
constexpr int kWholeBytes = kWholeWarps * kStagedBytes;

// How the columns' depth is shared out.
struct Whole {
    int together;  // blocks that share 32 columns, each `warps` stages of them at most
    int warps;
    int groups;    // of 32 columns that a block has

    __host__ __device__ explicit Whole(const Operand& of)
        : together(static_cast<int>(ceil_div(of.stages, kWholeWarps))), warps(static_cast<int>(ceil_div(of.stages, together))),
          groups(kWholeWarps / warps) {}
    // The stages of a block of the cluster are [begin_of(rank), begin_of(rank + 1)).
    __device__ __forceinline__ int begin_of(const Operand& of, int rank) const {
        return static_cast<int>(of.stages * rank / together);
    }
    int64_t blocks(const Operand& of) const { return ceil_div(of.all_rows() / kPieceRows, groups) * together; }
};

// The 32 rows and the stage of a warp, and its place among all.
struct OfWarp {
    int64_t group, first_row, depth;  // 32 rows each, of all matrices; of this matrix
    int stage;
    bool is_there;

    __device__ __forceinline__ OfWarp(const Operand& of, const Whole& whole) {
        const int warp = threadIdx.x / 32, rank = blockIdx.x % whole.together;
        const int64_t of_matrix = of.tiles() * (kTile / kPieceRows);
        group = static_cast<int64_t>(blockIdx.x / whole.together) * whole.groups + warp / whole.warps;
        first_row = group % of_matrix * kPieceRows;
        stage = whole.begin_of(of, rank) + warp % whole.warps;
        depth = static_cast<int64_t>(stage) * kDepth;
        const int tile = static_cast<int>(first_row / kTile);
        is_there = warp / whole.warps < whole.groups && group * kPieceRows < of.all_rows() && stage < whole.begin_of(of, rank + 1) &&
                   stage >= of.first_stage(tile) && stage < of.past_stage(tile);
    }
};

// Rows are neighbours: a lane has one of the 32.
__device__ __forceinline__ void load_row(float (&v)[kOfLane], const Operand& of, const OfWarp& at) {
    const int64_t row = at.first_row + threadIdx.x % 32, of_matrix = of.tiles() * (kTile / kPieceRows);
    const float* from = of.values + at.group / of_matrix * of.batch_step + row + at.depth * of.depth_step;
    const int64_t there = at.is_there && row < of.rows ? of.depth - at.depth : 0;
    if (there >= kOfLane) {
        #pragma unroll
        for (int i = 0; i < kOfLane; ++i) v[i] = from[i * of.depth_step];
    } else {
        #pragma unroll
        for (int i = 0; i < kOfLane; ++i) v[i] = i < there ? from[i * of.depth_step] : 0.0f;
    }
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
        const int64_t there = at.is_there && row < of.rows ? of.depth - depth : 0;
        if (of.by_fours && there >= 8) {
            const float4 first = reinterpret_cast<const float4*>(from)[0], second = reinterpret_cast<const float4*>(from)[1];
            v[i] = first.x, v[i + 1] = first.y, v[i + 2] = first.z, v[i + 3] = first.w;
            v[i + 4] = second.x, v[i + 5] = second.y, v[i + 6] = second.z, v[i + 7] = second.w;
        } else {
            #pragma unroll
            for (int j = 0; j < 8; ++j) v[i + j] = j < there ? from[j * of.depth_step] : 0.0f;
        }
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
        #pragma unroll
        for (int i = 0; i < kHalf / 8; ++i) {
            linear::Halves hi, lo;
            linear::split_eight<DRAWN>(v + half * kHalf + i * 8, scale_of(exponent), static_cast<uint32_t>(at.first_row + lane),
                                       static_cast<uint32_t>(at.depth + half * kHalf + i * 8), hi, lo);
            unsigned char* to = staged + lane * 64 + (i ^ lane / 2 % 4) * 16;  // pieces change places: a column meets all banks
            *reinterpret_cast<linear::Halves*>(to) = hi;
            *reinterpret_cast<linear::Halves*>(to + kStagedBytes / 2) = lo;
        }
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
    }
}

template <bool DRAWN>
__global__ void __launch_bounds__(kWholeThreads, 1) matmul_split_whole(const __grid_constant__ Operand of, int* zeroed, int64_t zeros) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // elsewhere nobody calls it
    extern __shared__ __align__(16) unsigned char staged[];
    __shared__ int largest[kWholeWarps][kPieceRows], of_block[kWholeWarps][kPieceRows], exponents[kWholeWarps][kPieceRows];
    await_earlier();
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * kWholeThreads + threadIdx.x;
    for (int64_t i = thread; i < zeros; i += static_cast<int64_t>(gridDim.x) * kWholeThreads) zeroed[i] = 0;
    const Whole whole(of);
    const OfWarp at(of, whole);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / whole.warps;
    float v[kOfLane];
    if (of.by_rows) {
        load_row(v, of, at);
    } else {
        load_eights(v, of, at);
    }
    note_rows(largest[warp], v, of.by_rows);
    __syncthreads();
    const bool is_first = warp % whole.warps == 0 && group < whole.groups;  // of its 32 columns' warps
    int mine = 0;
    if (is_first) {
        for (int i = 0; i < whole.warps; ++i) mine = max(mine, largest[warp + i][lane]);
        of_block[group][lane] = mine;
    }
    if (whole.together > 1) sm90::cluster_meet();
    if (is_first) {
        for (int rank = 0; whole.together > 1 && rank < whole.together; ++rank) mine = max(mine, sm90::load_from_block(of_block[group] + lane, rank));
        const int exponent = exponent_for(mine);
        exponents[group][lane] = exponent;
        if (blockIdx.x % whole.together == 0 && at.group * kPieceRows < of.all_rows()) of.exponents[at.group * kPieceRows + lane] = exponent;
    }
    __syncthreads();
    if (at.is_there) {
        const int64_t tile = at.group / (kTile / kPieceRows);
        unsigned char* packed = of.packed + (tile * of.stages + at.stage) * kOperandBytes;
        const int row = static_cast<int>(at.group % (kTile / kPieceRows)) * kPieceRows;
        if (of.by_rows) {
            store_row<DRAWN>(of, at, v, exponents[group][lane], packed, row, staged + warp * kStagedBytes);
        } else {
            store_eights<DRAWN>(of, at, v, exponents[group], packed, row);
        }
    }
    if (whole.together > 1) sm90::cluster_meet();  // others have read this block's values
#endif
}

inline bool splits_whole(const Operand& b) { return b.stages <= kWholeWarps * kMostTogether; }

template <bool DRAWN>
cudaError_t launch_split_whole(const Operands& both, cudaStream_t stream) {
    const auto kernel = matmul_split_whole<DRAWN>;
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   kWholeBytes);
    if (error != cudaSuccess) return error;
    const Whole whole(both.b);
    if (whole.blocks(both.b) > kMostBlocks) return cudaErrorInvalidValue;
    return launched_as(kernel, static_cast<unsigned>(whole.together), static_cast<unsigned>(whole.blocks(both.b)), kWholeThreads,
                       kWholeBytes, stream, both.b, both.zeroed, both.zeros);
}

// b, with zeros for the kernel behind.
inline cudaError_t split_whole(const Operands& both, cudaStream_t stream) {
    return both.b.drawn ? launch_split_whole<true>(both, stream) : launch_split_whole<false>(both, stream);
}

}  // namespace kernelwright::matmul
