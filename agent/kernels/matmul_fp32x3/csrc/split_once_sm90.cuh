// Splits both operands in one launch that reads each once. Some blocks keep 8 or 4 columns of b in registers over the whole depth
// until the columns' largest values are known. Each of the other blocks splits one stage of one tile of a.
#pragma once

#include "split_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kSplitWarps = 16;  // warps per block
constexpr int kBothThreads = 32 * kSplitWarps;
constexpr int kKept = 16;        // values per lane, a quarter of a stage
constexpr int kKeptRows = 32 * kKept / kDepth;           // pairs of column and stage per warp
constexpr int kStaged = kKeptRows * matrix::kRowBytes;   // bytes of hi, or of lo, per warp
constexpr int kBothBytes = kSplitWarps * 2 * kStaged;
constexpr int64_t kMostKept = 2 * kSplitWarps;            // maximum number of stages of b
constexpr int kBothShared = kBothBytes > int{sizeof(Packed)} ? kBothBytes : int{sizeof(Packed)};

// A group of warps keeps 2^bits columns of b: 8 with one stage per warp, or 4 with two stages beyond a depth of 1024.
__host__ __device__ __forceinline__ int bits_kept(const Operand& b) { return b.stages > kSplitWarps ? 2 : 3; }
__host__ __device__ __forceinline__ int group_warps(const Operand& b) {
    const int stages = static_cast<int>(b.stages);
    return stages > kSplitWarps ? (stages + 1) / 2 : stages;
}

// The columns of b and the stages that a warp keeps.
struct Kept {
    int bits, columns, warps;    // of its group, which has 2^bits columns
    int in_block, group, stage;  // index of the group in the block and overall; the warp's first stage
    int first_row, first, past;  // the columns exist for stages [first, past)
    const float* matrix;
    bool is_one;                 // the group exists

    __device__ __forceinline__ Kept(const Operand& of, int block)
        : bits(bits_kept(of)), columns(1 << bits), warps(group_warps(of)) {
        const int warp = threadIdx.x / 32, groups = kSplitWarps / warps, of_matrix = static_cast<int>(of.tiles()) * (kTile >> bits);
        in_block = warp / warps;
        group = block * groups + in_block;
        stage = warp % warps * (kKeptRows >> bits);
        first_row = group % of_matrix * columns;
        matrix = of.values + group / of_matrix * of.batch_step;
        is_one = in_block < groups && group * columns < of.all_rows();
        first = of.first_stage(first_row / kTile), past = is_one ? of.past_stage(first_row / kTile) : 0;
    }
    __device__ __forceinline__ bool has(int stage) const { return stage >= first && stage < past; }
};

// One column of one stage of b: number `number` of a warp's kKeptRows.
struct KeptRow {
    int column, stage;
    int64_t row, depth;  // indices in the matrix
    bool is_there;

    __device__ __forceinline__ KeptRow(const Operand& of, const Kept& at, int number)
        : column(number & (at.columns - 1)), stage(at.stage + (number >> at.bits)), row(at.first_row + column),
          depth(static_cast<int64_t>(stage) * kDepth), is_there(at.has(stage) && row < of.rows) {}
    // Offset of a 16-byte piece within the row's 128 bytes; see matrix::swizzled.
    __device__ __forceinline__ int place_of(int piece) const { return (piece ^ static_cast<int>(row % 8)) * 16; }
};

// If b is contiguous along columns, adjacent lanes take adjacent columns and a quarter of a stage each. Returns the lane's row.
__device__ __forceinline__ int row_of_lane(const Kept& at) {
    const int lane = threadIdx.x % 32;
    return (lane >> (at.bits + 2) << at.bits) + (lane & (at.columns - 1));
}
__device__ __forceinline__ int quarter_of_lane(const Kept& at) { return threadIdx.x % 32 >> at.bits & 3; }

__device__ __forceinline__ void keep_columns(float (&v)[kKept], const Operand& of, const Kept& at) {
    const KeptRow row(of, at, row_of_lane(at));
    const int64_t depth = row.depth + quarter_of_lane(at) * kKept;
    load_run<kKept>(v, at.matrix + row.row + depth * of.depth_step, of.depth_step, row.is_there ? of.depth - depth : 0);
    keep_part<kKept>(of, v, row.row, depth);
}

// Returns the lane's i-th row if b is not contiguous along columns: eight lanes share a row and take every fourth row.
__device__ __forceinline__ int row_of_eight(int i) { return 4 * i + threadIdx.x % 32 / 8; }

__device__ __forceinline__ void keep_eights(float (&v)[kKept], const Operand& of, const Kept& at) {
    #pragma unroll
    for (int i = 0; i < kKept / 8; ++i) {
        const KeptRow row(of, at, row_of_eight(i));
        const int64_t depth = row.depth + threadIdx.x % 8 * 8;
        load_eight(v + 8 * i, at.matrix + row.row * of.row_step + depth * of.depth_step, of, row.is_there ? of.depth - depth : 0);
        keep_part<8>(of, v + 8 * i, row.row, depth);
    }
}

// Notes the largest value of each of the warp's columns.
__device__ __forceinline__ void note_columns(int (&largest)[kKeptRows], const float (&v)[kKept], const Operand& of, const Kept& at) {
    const int lane = threadIdx.x % 32;
    if (of.by_rows) {
        int mine = __float_as_int(largest_of<kKept>(v));
        for (int lanes = at.columns; lanes < 32; lanes *= 2) mine = max(mine, __shfl_xor_sync(0xffffffffu, mine, lanes));
        if (lane < at.columns) largest[lane] = mine;
        return;
    }
    constexpr int kEights = kKept / 8;
    int mine[kEights];
    #pragma unroll
    for (int i = 0; i < kEights; ++i) {
        mine[i] = __float_as_int(largest_of<8>(v + 8 * i));
        for (int lanes = 4; lanes > 0; lanes /= 2) mine[i] = max(mine[i], __shfl_xor_sync(0xffffffffu, mine[i], lanes));
    }
    const bool two = at.columns < kKeptRows;  // the second half of the rows repeats the columns
    #pragma unroll
    for (int i = 0; i < kEights; ++i) {
        if (lane % 8 == 0) largest[row_of_eight(i)] = two ? max(mine[i % (kEights / 2)], mine[i % (kEights / 2) + kEights / 2]) : mine[i];
    }
}

// Returns the address of a warp's row among the packed tiles.
__device__ __forceinline__ unsigned char* packed_at(const Operand& of, const Kept& at, const KeptRow& row) {
    const int column = at.group << at.bits;
    return of.packed + (static_cast<int64_t>(column / kTile) * of.stages + row.stage) * kOperandBytes +
           (column % kTile + row.column) * matrix::kRowBytes;
}

// Splits and stores a warp's values. `exponent` is that of column lane % columns. Returns the lane's number of half stages that
// are not dense.
template <bool DRAWN>
__device__ __forceinline__ int store_columns(const Operand& of, const Kept& at, const float (&v)[kKept], int exponent,
                                             unsigned char* staged) {
    const int lane = threadIdx.x % 32, number = row_of_lane(at), quarter = quarter_of_lane(at);
    const KeptRow row(of, at, number);
    const int64_t depth = row.depth + quarter * kKept;
    int large = 0;
    #pragma unroll
    for (int i = 0; i < kKept / 8; ++i) {
        linear::Halves hi, lo;
        linear::split_eight<DRAWN>(v + i * 8, scale_of(exponent), static_cast<uint32_t>(row.row), static_cast<uint32_t>(depth + i * 8),
                                   hi, lo);
        unsigned char* to = staged + number * matrix::kRowBytes + row.place_of(quarter * (kKept / 8) + i);
        *reinterpret_cast<linear::Halves*>(to) = hi;
        *reinterpret_cast<linear::Halves*>(to + kStaged) = lo;
        large += count_large(hi, true);
    }
    large += __shfl_xor_sync(0xffffffffu, large, at.columns);  // the other quarter of the half stage
    __syncwarp();
    #pragma unroll
    for (int i = 0; i < kKept / 8; ++i) {
        const KeptRow of_eight(of, at, row_of_eight(i));
        if (!at.has(of_eight.stage)) continue;
        const unsigned char* from = staged + row_of_eight(i) * matrix::kRowBytes + lane % 8 * 16;
        unsigned char* to = packed_at(of, at, of_eight) + lane % 8 * 16;
        *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
        *reinterpret_cast<float4*>(to + kHalfBytes) = *reinterpret_cast<const float4*>(from + kStaged);
    }
    return quarter % 2 == 0 && at.has(row.stage) && is_sparse(of, row.row, depth, large) ? 1 : 0;
}

template <bool DRAWN>
__device__ __forceinline__ int store_kept_eights(const Operand& of, const Kept& at, const float (&v)[kKept], int exponent) {
    const int piece = threadIdx.x % 8;
    int sparse = 0;
    #pragma unroll
    for (int i = 0; i < kKept / 8; ++i) {
        const KeptRow row(of, at, row_of_eight(i));
        linear::Halves hi, lo;
        linear::split_eight<DRAWN>(v + 8 * i, scale_of(__shfl_sync(0xffffffffu, exponent, row.column)),
                                   static_cast<uint32_t>(row.row), static_cast<uint32_t>(row.depth + piece * 8), hi, lo);
        int large = count_large(hi, true);
        large += __shfl_xor_sync(0xffffffffu, large, 1);
        large += __shfl_xor_sync(0xffffffffu, large, 2);
        if (!at.has(row.stage)) continue;
        unsigned char* to = packed_at(of, at, row) + row.place_of(piece);
        *reinterpret_cast<linear::Halves*>(to) = hi;
        *reinterpret_cast<linear::Halves*>(to + kHalfBytes) = lo;
        sparse += piece % 4 == 0 && is_sparse(of, row.row, row.depth + piece / 4 * kHalf, large) ? 1 : 0;
    }
    return sparse;
}

// Splits a block's columns. Returns the thread's number of half stages that are not dense.
template <bool DRAWN>
__device__ __forceinline__ int split_kept(const Operand& of, const Kept& at, const float (&v)[kKept], unsigned char* staged) {
    __shared__ int largest[kSplitWarps][kKeptRows];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, column = lane & (at.columns - 1);
    note_columns(largest[warp], v, of, at);
    __syncthreads();
    if (!at.is_one) return 0;
    int mine = 0;
    for (int i = 0; i < at.warps; ++i) mine = max(mine, largest[at.in_block * at.warps + i][column]);
    const int exponent = exponent_for(mine);
    if (at.stage == 0 && lane < at.columns) of.exponents[at.group * at.columns + lane] = exponent;
    return of.by_rows ? store_columns<DRAWN>(of, at, v, exponent, staged + warp * 2 * kStaged)
                      : store_kept_eights<DRAWN>(of, at, v, exponent);
}

template <bool DRAWN>
__device__ __forceinline__ int split_columns(const Operand& of, int block, unsigned char* staged) {
    const Kept at(of, block);
    float v[kKept];
    if (of.by_rows) {
        keep_columns(v, of, at);
    } else {
        keep_eights(v, of, at);
    }
    return split_kept<DRAWN>(of, at, v, staged);
}

// Splits one stage of one tile of a. Returns the thread's number of half stages that are not dense.
__device__ __forceinline__ int split_tile_of_a(const Operand& of, int64_t block, unsigned char* memory) {
    Packed& tile = *reinterpret_cast<Packed*>(memory);
    const Portion at(of, block);
    const int number = static_cast<int>(at.first_row / kTile);
    if (at.stage < of.first_stage(number) || at.stage >= of.past_stage(number)) return 0;  // no product reads this stage
    float v[Eights<kBothThreads>::kValues];
    load<kBothThreads>(v, of, at);
    const int sparse = pack_as<kBothThreads, false>(tile, of, at, v);
    __syncthreads();
    store<kBothThreads>(tile, of, block);
    return sparse;
}

// Return the number of blocks that split b (column_blocks) and both operands (split_blocks).
__host__ __device__ __forceinline__ int64_t column_blocks(const Operand& b) {
    return ceil_div(b.all_rows() >> bits_kept(b), kSplitWarps / group_warps(b));
}
__host__ __device__ __forceinline__ int64_t split_blocks(const Operands& both) { return column_blocks(both.b) + both.a.blocks(); }

template <bool DRAWN>
__global__ void __launch_bounds__(kBothThreads, 2) matmul_split_once(const __grid_constant__ Operands both) {
    extern __shared__ __align__(16) unsigned char staged[];
    __shared__ int all;
    if (threadIdx.x == 0) all = 0;
    await_earlier();
    let_next_begin();  // the next kernel waits for this one's end
    __syncthreads();
    const int block = blockIdx.x, of_b = static_cast<int>(gridDim.x - both.a.blocks());
    int sparse = block < of_b ? split_columns<DRAWN>(both.b, block, staged) : split_tile_of_a(both.a, block - of_b, staged);
    if (__any_sync(0xffffffffu, sparse != 0)) {
        for (int lanes = 16; lanes > 0; lanes /= 2) sparse += __shfl_xor_sync(0xffffffffu, sparse, lanes);
        if (threadIdx.x % 32 == 0) atomicAdd(&all, sparse);
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    if (both.noted != nullptr) {
        both.noted[block] = all;
    } else if (all != 0) {
        atomicAdd(both.b.sparse, all);
    }
}

inline bool splits_once(const Operand& b) { return b.stages <= kMostKept; }

template <bool DRAWN>
cudaError_t launch_split_once(const Operands& both, cudaStream_t stream) {
    const auto kernel = matmul_split_once<DRAWN>;
    const cudaError_t error =
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, kBothShared);
    if (error != cudaSuccess) return error;
    const int64_t blocks = split_blocks(both);
    if (blocks > kMostBlocks) return cudaErrorInvalidValue;
    return launched_with(kernel, static_cast<unsigned>(blocks), kBothThreads, kBothShared, stream, both);
}

// Launches the split. Each block leaves its count of half stages that are not dense in `noted`, or adds it to `sparse` if `noted`
// is null.
inline cudaError_t split_once(const Operands& both, cudaStream_t stream) {
    return both.b.drawn ? launch_split_once<true>(both, stream) : launch_split_once<false>(both, stream);
}

// Returns true if b is too large for its second read to come from L2.
inline bool is_read_once(const Operand& b) {
    constexpr int64_t kReadFromL2 = 40 << 20;
    return b.stages <= kSplitWarps && b.batch * b.rows * b.depth * int64_t{sizeof(float)} > kReadFromL2;
}

// Splits both operands in one launch for products of many tiles, and clears the counters of the next kernel.
inline cudaError_t split_and_add_up(Operands both, cudaStream_t stream) {
    both.noted = nullptr;
    const auto bytes = reinterpret_cast<const char*>(both.zeroed + both.zeros) - reinterpret_cast<const char*>(both.b.sparse);
    const cudaError_t error = cudaMemsetAsync(both.b.sparse, 0, static_cast<size_t>(bytes), stream);
    return error == cudaSuccess ? split_once(both, stream) : error;
}

}  // namespace kernelwright::matmul
