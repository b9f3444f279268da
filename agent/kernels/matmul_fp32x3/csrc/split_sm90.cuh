// Splits two float matrices of any layout into two fp16 matrices each, for the tensor cores.
//
// Values are scaled by a power of two, so that the largest finite value that shares the scale lies in [2^13, 2^14), then split: hi =
// fp16(v), lo = fp16(v - hi). In a, 32 adjacent depths of a row (half a stage) share a scale. The sums of half a stage leave the
// tensor cores separately and are scaled back separately. So a is read once, and a small value loses digits only relative to those
// 32 (2^-38 of the largest). In b a column has one scale, from a kernel of its own that finds the largest values. A scale per half
// stage of b would cost a second factor per sum, as much as the addition itself.
//
// Ties are rounded at random, and all values of b stochastically if lo * lo is omitted. An infinity or NaN goes into lo, next to a
// hi of 1 with its sign. For both see linear_fp32x3/csrc/split_sm90.cuh.
//
// The packed layout is [tile of 128 rows][64 of depth], hi and lo of 16 KB each, swizzled. Stages of a also hold the factors that
// scale the sums back, [2][128]. b's exponents come after its tiles.
#pragma once

#include <algorithm>

#include "../../csrc/launched.cuh"
#include "../../linear_fp32x3/csrc/split_sm90.cuh"
#include "sizes.cuh"

namespace kernelwright::matmul {

using linear::kDepth;
using linear::kHalfBytes;
using linear::kOperandBytes;
using linear::kTile;

constexpr int kSplitThreads = 256;
constexpr int kHalf = kDepth / 2;  // depths of half a stage, which share a scale in each row of a
constexpr int kFactorBytes = 2 * kTile * static_cast<int>(sizeof(float));
constexpr int kPackedBytes = kOperandBytes + kFactorBytes;  // bytes of one stage of a tile of a
constexpr int kPieceRows = 32;                              // columns of b whose largest values a block finds
constexpr int64_t kLeastPiece = 512;                        // minimum number of depths per piece
constexpr int64_t kMostPieces = 64;
constexpr int64_t kLookedAtApart = 24 << 20;                // bytes of b from which a kernel of its own finds b's largest values
constexpr int kMargin = 26;  // sums are kept scaled by 2^-26 until the epilogue, so that none overflows before

// An operand by its rows (m rows of a, n columns of b) and its depth K.
struct Operand {
    const float* values;
    int64_t batch_step, row_step, depth_step;
    int64_t batch, rows, depth;  // batch is 1 if all share one matrix
    bool by_fours;               // allows loads of float4 along the depth
    bool by_rows;                // contiguous along rows and not along the depth
    bool is_b;
    bool drawn;                  // all values are rounded stochastically
    int64_t part;                // Part of the operand: kLower: depth <= row; kUpper: depth >= row
    int64_t stages;
    unsigned char* packed;
    int* exponents;              // b only, [batch, padded rows]
    int* largest;                // b only, [pieces, batch, padded rows], bits of the largest finite magnitude
    int* sparse;                 // number of half stages of rows of both operands that are not dense
    int* noted;                  // a only: number of half stages that are not dense, for each stage of a tile
    int64_t piece, pieces;       // depths per piece, and number of pieces

    // A row exists for depths [begin_of(row), end_of(row)) within the operand's part.
    __host__ __device__ int64_t begin_of(int64_t row) const { return matmul::begin_of(*this, row); }
    __host__ __device__ int64_t end_of(int64_t row) const { return matmul::end_of(*this, row); }
    // A tile exists for stages [first_stage, past_stage) within the operand's part.
    __device__ __forceinline__ int first_stage(int tile) const {
        return static_cast<int>(begin_of(static_cast<int64_t>(tile) * kTile) / kDepth);
    }
    __device__ __forceinline__ int past_stage(int tile) const {
        return static_cast<int>(ceil_div(end_of(static_cast<int64_t>(tile) * kTile + kTile - 1), kDepth));
    }
    __host__ __device__ int64_t tiles() const { return ceil_div(rows, kTile); }
    __host__ __device__ int64_t all_rows() const { return batch * tiles() * kTile; }
    __host__ __device__ int64_t tile_bytes() const { return stages * (is_b ? kOperandBytes : kPackedBytes); }
    __host__ __device__ int64_t blocks() const { return batch * tiles() * stages; }
    __host__ __device__ int64_t look_blocks() const { return all_rows() / kPieceRows * pieces; }
    __host__ __device__ int64_t bytes() const {
        const int64_t behind = is_b ? all_rows() * (pieces + 1) + 1 : blocks();
        return batch * tiles() * tile_bytes() + behind * int64_t{sizeof(int)};
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
    return made;
}

inline Operand b_of(Operand made, bool drawn) {
    made.is_b = true;
    made.drawn = drawn;
    made.piece = std::max(kLeastPiece, ceil_div(ceil_div(made.depth, kMostPieces), kDepth) * kDepth);
    made.pieces = ceil_div(made.depth, made.piece);
    return made;
}

// Sets the workspace pointers of an operand. `memory` is 256-aligned.
inline void place(Operand& operand, unsigned char* memory) {
    operand.packed = memory;
    auto* behind = reinterpret_cast<int*>(memory + operand.batch * operand.tiles() * operand.tile_bytes());
    if (!operand.is_b) {
        operand.noted = behind;
        return;
    }
    operand.exponents = behind;
    operand.largest = operand.exponents + operand.all_rows();
    operand.sparse = operand.largest + operand.all_rows() * operand.pieces;
}

// Zeroes the values outside the operand's part.
template <int COUNT>
__device__ __forceinline__ void keep_part(const Operand& of, float* v, int64_t row, int64_t depth) {
    if (of.part == kWhole) return;
    const int64_t begin = of.begin_of(row) - depth, end = of.end_of(row) - depth;
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) v[i] = i >= begin && i < end ? v[i] : 0.0f;
}

struct Operands {
    Operand a, b;
    int* zeroed;  // counters to clear for the next kernel
    int64_t zeros;
    int* noted;   // number of half stages of rows that are not dense, per block of split_once_sm90.cuh
};

// Exponent of the scale for values up to `largest`, given by its bits. The scale is always a normal float.
constexpr int kNoValue = 120;  // maximum, also used if all values are 0
__device__ __forceinline__ int exponent_for(int largest) { return min(13 + 127 - (largest >> 23), kNoValue); }
__device__ __forceinline__ int exponent_for(float largest) { return exponent_for(__float_as_int(largest)); }

__device__ __forceinline__ float scale_of(int exponent) { return __int_as_float((127 + exponent) << 23); }

// Factor that scales a half stage's sums back; may be denormal.
__device__ __forceinline__ float factor_of(int exponent) { return ldexpf(1.0f, -kMargin - exponent); }

// Returns the largest finite magnitude of COUNT values.
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
    float factors[2][kTile];  // factors of a's rows
    int exponents[kTile];     // exponents of b's columns
};

// Half a stage of a row is dense if at least 5/8 of its values exceed 2^-6 of the largest that shares its scale, or 2^-7 in b. Any
// two dense halves then share at least a quarter of their depths. Counts how many of eight values exceed that threshold, by their
// hi.
__device__ __forceinline__ int count_large(const linear::Halves& hi, bool is_b) {
    const __half2 least = __float2half2_rn(is_b ? 128.0f : 256.0f);
    __half2 large = __float2half2_rn(1024.0f);  // the last mantissa bits are the counter
    #pragma unroll
    for (int i = 0; i < 8; i += 2) large = __hadd2(large, __hge2(__habs2(__halves2half2(hi.v[i], hi.v[i + 1])), least));
    return (__half_as_ushort(__low2half(large)) & 0xf) + (__half_as_ushort(__high2half(large)) & 0xf);
}

// Splits and stores eight values of a row of the tile. Returns how many are large (count_large).
template <bool DRAWN>
__device__ __forceinline__ int put(Packed& tile, const Operand& of, int row, int64_t first_row, int piece, int64_t stage,
                                    const float* v, int exponent) {
    const auto row_number = static_cast<uint32_t>(first_row + row), depth = static_cast<uint32_t>(stage * kDepth + piece * 8);
    linear::Halves hi, lo;
    linear::split_eight<DRAWN>(v, scale_of(exponent), row_number, depth, hi, lo);
    unsigned char* to = tile.bytes + matrix::swizzled(row, piece);
    *reinterpret_cast<linear::Halves*>(to) = hi;
    *reinterpret_cast<linear::Halves*>(to + kHalfBytes) = lo;
    if (piece % 4 == 0) tile.factors[piece / 4][row] = factor_of(exponent);
    return count_large(hi, of.is_b);
}

// One stage of one tile: its matrix and position.
struct Portion {
    const float* matrix;
    int64_t number, first_row, stage;  // `number` is the tile's index over all matrices

    __device__ __forceinline__ Portion(const Operand& of, int64_t block) {
        // 32 bits suffice for kMostBlocks. 64-bit divisions would cost hundreds of instructions before the first load.
        const auto at = static_cast<uint32_t>(block), stages = static_cast<uint32_t>(of.stages);
        const uint32_t tile = at / stages, tiles = static_cast<uint32_t>(of.tiles());
        number = tile, stage = at % stages;
        matrix = of.values + int64_t{tile / tiles} * of.batch_step;
        first_row = int64_t{tile % tiles} * kTile;
    }
};

// Position of a thread's i-th of kCount groups of eight depths, in a block of THREADS. For operands contiguous along rows 32 or 16
// lanes take adjacent rows; for others eight threads share a row.
template <int THREADS>
struct Eights {
    static constexpr int kCount = kTile * kDepth / 8 / THREADS;
    static constexpr int kValues = 8 * kCount;
    static constexpr int kLanes = kCount * 8;  // lanes on adjacent rows; the other lanes take the other groups of the 32 depths
    bool by_rows;

    __device__ __forceinline__ int row(int i) const {
        const int thread = threadIdx.x;
        return by_rows ? thread / 32 * kLanes % kTile + thread % kLanes : i * (THREADS / 8) + thread / 8;
    }
    __device__ __forceinline__ int piece(int i) const {
        const int thread = threadIdx.x;
        return by_rows ? thread / 32 * kLanes / kTile * (kHalf / 8) + thread % 32 / kLanes * kCount + i : thread % 8;
    }
};

// Loads COUNT adjacent depths, of which the first `there` exist; the remaining values are 0.
template <int COUNT>
__device__ __forceinline__ void load_run(float* v, const float* from, int64_t step, int64_t there) {
    if (there >= COUNT) {
        #pragma unroll
        for (int i = 0; i < COUNT; ++i) v[i] = from[i * step];
    } else {
        #pragma unroll
        for (int i = 0; i < COUNT; ++i) v[i] = i < there ? from[i * step] : 0.0f;
    }
}

__device__ __forceinline__ void load_eight(float* v, const float* from, const Operand& of, int64_t there) {
    if (of.by_fours && there >= 8) {
        const float4 first = reinterpret_cast<const float4*>(from)[0], second = reinterpret_cast<const float4*>(from)[1];
        v[0] = first.x, v[1] = first.y, v[2] = first.z, v[3] = first.w;
        v[4] = second.x, v[5] = second.y, v[6] = second.z, v[7] = second.w;
    } else {
        #pragma unroll
        for (int i = 0; i < 8; ++i) v[i] = i < there ? from[i * of.depth_step] : 0.0f;
    }
}

template <int THREADS>
__device__ __forceinline__ void load_by_rows(float (&v)[Eights<THREADS>::kValues], const Operand& of, const Portion& at) {
    constexpr int kValues = Eights<THREADS>::kValues;
    const Eights<THREADS> eights = {true};
    const int64_t row = at.first_row + eights.row(0), begin = at.stage * kDepth + eights.piece(0) * 8;
    const float* from = at.matrix + row + begin * of.depth_step;
    load_run<kValues>(v, from, of.depth_step, row < of.rows ? of.depth - begin : 0);
}

template <int THREADS>
__device__ __forceinline__ void load_by_depth(float (&v)[Eights<THREADS>::kValues], const Operand& of, const Portion& at) {
    const Eights<THREADS> eights = {false};
    const int64_t begin = at.stage * kDepth + eights.piece(0) * 8;
    #pragma unroll
    for (int i = 0; i < Eights<THREADS>::kValues; i += 8) {
        const int64_t row = at.first_row + eights.row(i / 8);
        const float* from = at.matrix + row * of.row_step + begin * of.depth_step;
        load_eight(v + i, from, of, row < of.rows ? of.depth - begin : 0);
    }
}

template <int THREADS>
__device__ __forceinline__ void load(float (&v)[Eights<THREADS>::kValues], const Operand& of, const Portion& at) {
    if (of.by_rows) {
        load_by_rows<THREADS>(v, of, at);
    } else {
        load_by_depth<THREADS>(v, of, at);
    }
    const Eights<THREADS> eights = {of.by_rows};
    #pragma unroll
    for (int i = 0; i < Eights<THREADS>::kValues; i += 8) {
        keep_part<8>(of, v + i, at.first_row + eights.row(i / 8), at.stage * kDepth + eights.piece(i / 8) * 8);
    }
}

// Finds the largest value of the half stage (32 depths) to which each of a thread's groups of eight belongs.
template <int THREADS>
__device__ __forceinline__ void find_largest(float (&largest)[Eights<THREADS>::kCount], const float (&v)[Eights<THREADS>::kValues],
                                             bool by_rows) {
    constexpr int kCount = Eights<THREADS>::kCount;
    #pragma unroll
    for (int i = 0; i < kCount; ++i) largest[i] = largest_of<8>(v + i * 8);
    if (by_rows) {
        float of_all = largest_of<kCount>(largest);
        for (int lanes = Eights<THREADS>::kLanes; lanes < 32; lanes *= 2) {
            of_all = fmaxf(of_all, __shfl_xor_sync(0xffffffffu, of_all, lanes));
        }
        #pragma unroll
        for (int i = 0; i < kCount; ++i) largest[i] = of_all;
        return;
    }
    #pragma unroll
    for (int i = 0; i < kCount; ++i) {
        largest[i] = fmaxf(largest[i], __shfl_xor_sync(0xffffffffu, largest[i], 1));
        largest[i] = fmaxf(largest[i], __shfl_xor_sync(0xffffffffu, largest[i], 2));
    }
}

constexpr int kDense = kHalf * 5 / 8;

// Returns true if the half stage from `depth` on, possibly incomplete, is not dense.
__device__ __forceinline__ bool is_sparse(const Operand& of, int64_t row, int64_t depth, int large) {
    if (large >= kDense || row >= of.rows) return false;
    const int64_t there = min(of.end_of(row), depth + kHalf) - max(of.begin_of(row), depth);
    return 8 * int64_t{large} < 5 * there;
}

// Returns the number of half stages that are not dense, counted by the first of the lanes that share one.
template <int THREADS>
__device__ __forceinline__ int count_sparse(const Operand& of, const Portion& at, const int (&large)[Eights<THREADS>::kCount]) {
    constexpr int kCount = Eights<THREADS>::kCount;
    const Eights<THREADS> eights = {of.by_rows};
    const int64_t depth = at.stage * kDepth + eights.piece(0) / 4 * kHalf;
    if (of.by_rows) {
        int all = 0;
        #pragma unroll
        for (int i = 0; i < kCount; ++i) all += large[i];
        for (int lanes = Eights<THREADS>::kLanes; lanes < 32; lanes *= 2) all += __shfl_xor_sync(0xffffffffu, all, lanes);
        return threadIdx.x % 32 < Eights<THREADS>::kLanes && is_sparse(of, at.first_row + eights.row(0), depth, all) ? 1 : 0;
    }
    unsigned bytes = 0;
    #pragma unroll
    for (int i = 0; i < kCount; ++i) bytes |= static_cast<unsigned>(large[i]) << 8 * i;
    bytes += __shfl_xor_sync(0xffffffffu, bytes, 1);
    bytes += __shfl_xor_sync(0xffffffffu, bytes, 2);
    constexpr unsigned kOfEach = 0x01010101u >> 8 * (4 - kCount);
    if (((bytes + (128 - kDense) * kOfEach) & 128 * kOfEach) == 128 * kOfEach || threadIdx.x % 4 != 0) return 0;
    int sparse = 0;
    #pragma unroll 1
    for (int i = 0; i < kCount; ++i) {
        sparse += is_sparse(of, at.first_row + eights.row(i), depth, static_cast<int>(bytes >> 8 * i & 0xff)) ? 1 : 0;
    }
    return sparse;
}

// Adds a warp's count of half stages that are not dense to the operand's counter. All lanes call it.
__device__ __forceinline__ void note_sparse(const Operand& of, int sparse) {
    if (!__any_sync(0xffffffffu, sparse != 0)) return;
    for (int lanes = 16; lanes > 0; lanes /= 2) sparse += __shfl_xor_sync(0xffffffffu, sparse, lanes);
    if (threadIdx.x % 32 == 0) atomicAdd(of.sparse, sparse);
}

// Returns true if more than one in 64 half stages of both operands is not dense. Fewer occur by chance in any operand, above all if
// the last half stage holds a single value; rows with such half stages among many dense ones are ignored.
__device__ __forceinline__ bool are_sparse(const Operand& a, const Operand& b, int found) {
    return found * int64_t{64 * kHalf} > (a.batch * a.rows + b.batch * b.rows) * a.depth;
}

// Splits one stage of a tile. Returns how many half stages of rows are not dense.
template <int THREADS, bool DRAWN>
__device__ __forceinline__ int pack_as(Packed& tile, const Operand& of, const Portion& at,
                                        const float (&v)[Eights<THREADS>::kValues]) {
    const Eights<THREADS> eights = {of.by_rows};
    float largest[Eights<THREADS>::kCount];
    int large[Eights<THREADS>::kCount];
    if (!of.is_b) find_largest<THREADS>(largest, v, of.by_rows);
    #pragma unroll
    for (int i = 0; i < Eights<THREADS>::kCount; ++i) {
        const int row = eights.row(i);
        const int exponent = of.is_b ? tile.exponents[row] : exponent_for(largest[i]);
        large[i] = put<DRAWN>(tile, of, row, at.first_row, eights.piece(i), at.stage, v + i * 8, exponent);
    }
    return count_sparse<THREADS>(of, at, large);
}

template <int THREADS>
__device__ __forceinline__ void store(const Packed& tile, const Operand& of, int64_t block) {
    const int bytes = of.is_b ? kOperandBytes : kPackedBytes;
    auto* to = reinterpret_cast<float4*>(of.packed + block * bytes);
    for (int i = threadIdx.x; i < bytes / 16; i += THREADS) to[i] = reinterpret_cast<const float4*>(&tile)[i];
}

// Finds the largest values of an operand contiguous along rows: a lane per row of 32, a warp for every eighth depth.
__device__ __forceinline__ void look_by_rows(const Operand& of, const float* matrix, int64_t first, int64_t begin,
                                             int64_t end, int* largest) {
    __shared__ float of_warp[kSplitThreads / 32][kPieceRows];
    const int warp = threadIdx.x / 32;
    const int64_t row = first + threadIdx.x % 32;
    float mine = 0.0f;
    if (row < of.rows) {
        #pragma unroll 16
        for (int64_t i = max(begin, of.begin_of(row)) + warp; i < min(end, of.end_of(row)); i += kSplitThreads / 32) {
            mine = fmaxf(mine, linear::finite_size(matrix[row + i * of.depth_step]));
        }
    }
    of_warp[warp][threadIdx.x % 32] = mine;
    __syncthreads();
    if (warp > 0) return;
    for (int other = 1; other < kSplitThreads / 32; ++other) mine = fmaxf(mine, of_warp[other][threadIdx.x]);
    largest[threadIdx.x] = __float_as_int(mine);
}

// Finds the largest values of any other operand: a warp per row.
__device__ __forceinline__ void look_by_depth(const Operand& of, const float* matrix, int64_t first, int64_t begin,
                                              int64_t end, int* largest) {
    for (int i = threadIdx.x / 32; i < kPieceRows; i += kSplitThreads / 32) {
        float mine = 0.0f;
        if (first + i < of.rows) {
            const float* row = matrix + (first + i) * of.row_step;
            #pragma unroll 16
            for (int64_t at = max(begin, of.begin_of(first + i)) + threadIdx.x % 32; at < min(end, of.end_of(first + i)); at += 32) {
                mine = fmaxf(mine, linear::finite_size(row[at * of.depth_step]));
            }
        }
        for (int offset = 16; offset > 0; offset /= 2) mine = fmaxf(mine, __shfl_xor_sync(0xffffffffu, mine, offset));
        if (threadIdx.x % 32 == 0) largest[i] = __float_as_int(mine);
    }
}

// Finds the largest values of 32 columns of b over one piece of the depth.
__device__ __forceinline__ void look(const Operand& of, int64_t block) {
    const int64_t piece = block % of.pieces, group = block / of.pieces;
    const int64_t of_batch = of.tiles() * (kTile / kPieceRows);
    const float* matrix = of.values + group / of_batch * of.batch_step;
    const int64_t first = group % of_batch * kPieceRows, begin = piece * of.piece;
    const int64_t end = min(begin + of.piece, of.depth);
    int* largest = of.largest + piece * of.all_rows() + group * kPieceRows;
    if (of.by_rows) {
        look_by_rows(of, matrix, first, begin, end, largest);
    } else {
        look_by_depth(of, matrix, first, begin, end, largest);
    }
}

// Splits one stage of a tile of a in each block. The number of half stages that are not dense is left for `take_over`.
__device__ __forceinline__ void split_a(const Operand& of, int64_t block) {
    __shared__ Packed tile;
    __shared__ int all;
    const Portion at(of, block);
    const int number = static_cast<int>(at.first_row / kTile);
    const bool is_there = at.stage >= of.first_stage(number) && at.stage < of.past_stage(number);
    if (threadIdx.x == 0) of.noted[block] = all = 0;
    if (!is_there) return;  // no product reads this stage
    float v[Eights<kSplitThreads>::kValues];
    load<kSplitThreads>(v, of, at);
    const int sparse = pack_as<kSplitThreads, false>(tile, of, at, v);
    if (__syncthreads_or(sparse != 0)) {
        if (sparse != 0) atomicAdd(&all, sparse);
        __syncthreads();
        if (threadIdx.x == 0) of.noted[block] = all;
    }
    store<kSplitThreads>(tile, of, block);
}

// All blocks of the next kernel call this: it clears the counters of the kernel after it and adds up the counts of a.
template <int THREADS>
__device__ __forceinline__ void take_over(const Operands& both) {
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x, step = static_cast<int64_t>(gridDim.x) * THREADS;
    for (int64_t i = thread; i < both.zeros; i += step) both.zeroed[i] = 0;
    for (int64_t i = thread; i < both.a.blocks(); i += step) {
        const int sparse = __ldcg(both.a.noted + i);
        if (sparse != 0) atomicAdd(both.b.sparse, sparse);
    }
}

// Splits one stage of a tile of b in each block.
template <bool DRAWN>
__global__ void __launch_bounds__(kSplitThreads, 3) matmul_split_b(const __grid_constant__ Operands both) {
    await_earlier();
    take_over<kSplitThreads>(both);
    __shared__ Packed tile;
    const Operand& of = both.b;
    const int64_t block = blockIdx.x;
    const Portion at(of, block);
    const int number = static_cast<int>(at.first_row / kTile);
    const bool is_there = at.stage >= of.first_stage(number) && at.stage < of.past_stage(number);
    if (!is_there && at.stage > 0) return;  // no product reads this stage
    if (threadIdx.x < kTile) {
        const int64_t row = at.number * kTile + threadIdx.x;
        int largest = 0;
        for (int64_t i = 0; i < of.pieces; ++i) largest = max(largest, of.largest[i * of.all_rows() + row]);
        tile.exponents[threadIdx.x] = exponent_for(largest);
        if (at.stage == 0) of.exponents[row] = tile.exponents[threadIdx.x];
    }
    __syncthreads();
    float v[Eights<kSplitThreads>::kValues];
    load<kSplitThreads>(v, of, at);
    note_sparse(of, pack_as<kSplitThreads, DRAWN>(tile, of, at, v));
    __syncthreads();
    store<kSplitThreads>(tile, of, block);
}

// Finds b's largest values in a kernel of its own, with higher occupancy.
__global__ void __launch_bounds__(kSplitThreads) matmul_look(const __grid_constant__ Operand of) {
    await_earlier();
    look(of, blockIdx.x);
}

// Finds b's largest values in the first `looks` blocks, and splits a in the others, independently.
__global__ void __launch_bounds__(kSplitThreads, 3) matmul_begin(const __grid_constant__ Operands both, int64_t looks) {
    await_earlier();
    if (blockIdx.x == 0 && threadIdx.x == 0) *both.b.sparse = 0;
    if (blockIdx.x < looks) {
        look(both.b, blockIdx.x);
    } else {
        split_a(both.a, blockIdx.x - looks);
    }
}

inline cudaError_t begin(const Operands& both, int64_t looks, cudaStream_t stream) {
    const int64_t blocks = looks + both.a.blocks();
    if (blocks > kMostBlocks) return cudaErrorInvalidValue;
    return launched(matmul_begin, static_cast<unsigned>(blocks), kSplitThreads, stream, both, looks);
}

// Splits both operands, of one depth, reading b twice. a may be empty.
inline cudaError_t split(const Operands& both, cudaStream_t stream) {
    const int64_t looks = both.b.look_blocks();
    if (std::max(looks, both.b.blocks()) > kMostBlocks) return cudaErrorInvalidValue;
    const bool is_apart = both.a.blocks() > 0 && both.b.batch * both.b.rows * both.b.depth * int64_t{sizeof(float)} > kLookedAtApart;
    cudaError_t error = cudaSuccess;
    if (is_apart) error = launched(matmul_look, static_cast<unsigned>(looks), kSplitThreads, stream, both.b);
    if (error == cudaSuccess) error = begin(both, is_apart ? 0 : looks, stream);
    const auto kernel = both.b.drawn ? matmul_split_b<true> : matmul_split_b<false>;
    return error == cudaSuccess ? launched(kernel, static_cast<unsigned>(both.b.blocks()), kSplitThreads, stream, both) : error;
}

}  // namespace kernelwright::matmul
