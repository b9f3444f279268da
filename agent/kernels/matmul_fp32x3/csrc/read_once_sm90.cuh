// Products of few tiles and a large depth, on sm_90a. Both operands are read once in their memory order and split within the SM, without
// a kernel that splits them beforehand and without storing the split.
//
// A block has a tile of 128 rows by N columns and a part of the depth, which it walks through in chunks of 32. Each warp of two
// warpgroups copies 16 rows into its own ring and splits them in registers, which are the left operand of wgmma. While the other
// warpgroup uses the tensor cores, it adds the sums of each chunk to its own in float arithmetic. Two more warpgroups copy the columns,
// split them and store them in the layout of the products.
//
// Values are split into two fp16 (strip_halves_sm90.cuh), or into three bf16 (strip_thirds_sm90.cuh) if the loss may matter in a block's
// sums or the caller asks for it. Three bf16 hold all bits of a float, at the cost of 1.5 times as many products.
//
// The left operand's rows are y's columns (`turned`), or y's rows if y has few columns.
#pragma once

#include <algorithm>

#include "product_sm90.cuh"
#include "strip_halves_sm90.cuh"
#include "strip_thirds_sm90.cuh"

namespace kernelwright::matmul {

struct ReadOnce {
    Strip left, right;
    int depth, chunks;
    int parts;  // split-K parts
    int left_tiles, right_tiles;
    int m, n;      // sizes of y
    bool turned;   // the left operand's rows are y's columns
    float* to;     // sums of the parts [parts, m, n], or y
    float factor;  // factor of the sums stored to `to`
    Outcome out;   // epilogue once the parts are added

    __device__ __forceinline__ int begin_of(int part) const { return static_cast<int>(int64_t{chunks} * part / parts); }
};

// Registers per thread that multiplies, and per thread that splits columns, in multiples of eight. Requesting more registers than the
// block started with would wait forever.
template <bool HALVES>
constexpr int kLeftRegisters = HALVES ? 200 : 208;
template <bool HALVES>
constexpr int kRightRegisters = kReadThreads / kLeftThreads * (65536 / kReadThreads / 8 * 8) - kLeftRegisters<HALVES>;
static_assert(kLeftThreads == kSplitters * kRightThreads);

// Returns the lower half of a descriptor as by matrix::pieces_descriptor, for columns `bytes` after `first`.
__device__ __forceinline__ uint64_t columns_descriptor(uint32_t first, int bytes) {
    uint64_t made;
    asm("mov.b64 %0, {%1, %2};" : "=l"(made) : "r"(first + bytes / 16), "r"(8));
    return made;
}

// Issues the products of a chunk as one group.
template <int N, class Left>
__device__ __forceinline__ void multiply_chunk(float (&partial)[N / 2], const Left& left, uint32_t right) {
    matrix::matrix_begin();
    #pragma unroll
    for (int i = 0; i < 2 * Left::kProducts; ++i) {
        const int2 parts = Left::product(i / 2);
        const int half = i % 2;
        left.multiply(partial, parts.x, half, columns_descriptor(right, parts.y * kPartBytes<N> + half * 2 * N * 16), i > 0);
    }
    sm90::products_issued();
}

struct ReadTile {
    int part, first_left, first_right, begin, end;

    template <int N>
    __device__ __forceinline__ static ReadTile of(const ReadOnce& p) {
        const int tiles = p.left_tiles * p.right_tiles, tile = static_cast<int>(blockIdx.x) % tiles, part = static_cast<int>(blockIdx.x) / tiles;
        return {part, tile % p.left_tiles * kLeftRows, tile / p.left_tiles * N, p.begin_of(part), p.begin_of(part + 1)};
    }
};

// Shared memory of the rings and their barriers. `again` selects the second pass, which has barriers of its own.
template <int N, class Split>
struct ReadRing {
    using Shape = ReadShape<N, Split::kParts>;
    unsigned char *left, *right, *split;
    float* factors;  // factor of each group of columns in each slot
    uint64_t *full, *free;

    __device__ __forceinline__ explicit ReadRing(unsigned char* shared, bool again = false) {
        const uint32_t past = matrix::shared_address(shared) % matrix::kAtomBytes;
        unsigned char* begin = shared + (past == 0 ? 0 : matrix::kAtomBytes - past);
        full = reinterpret_cast<uint64_t*>(begin) + (again ? 2 * Shape::kSplit : 0);
        free = full + Shape::kSplit;
        factors = reinterpret_cast<float*>(begin) + 8 * Shape::kSplit;
        left = begin + matrix::kAtomBytes;
        right = left + Shape::kRaw * Shape::kLeftBytes;
        split = right + Shape::kRawColumns * kColumnBytes<N>;
    }
    __device__ __forceinline__ void begin() const {
        for (int i = 0; i < Shape::kSplit; ++i) {
            matrix::barrier_init(full + i, kRightThreads);
            matrix::barrier_init(free + i, kLeftThreads);
        }
    }
};

__device__ __forceinline__ void splitters_meet(int splitter) {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + splitter), "n"(kRightThreads) : "memory");
}

// Splits the columns of every other chunk of the tile; each of two warpgroups calls it. Returns true if their accuracy is in doubt.
template <int N, class Split>
__device__ __forceinline__ bool split_columns(const ReadOnce& p, const ReadTile& tile, const ReadRing<N, Split>& ring) {
    using Shape = ReadShape<N, Split::kParts>;
    constexpr int kRaw = Shape::kRawColumns / kSplitters;
    const int splitter = (static_cast<int>(threadIdx.x) - kLeftThreads) / kRightThreads, begin = tile.begin + splitter;
    unsigned char* own = ring.right + splitter * kRaw * kColumnBytes<N>;
    RightColumns<N> columns(p.right, tile.first_right, p.depth, begin, own);
    typename Split::template Right<N> split(tile.first_right);
    #pragma unroll 1
    for (int i = 0; i < kRaw; ++i) {
        if (begin + i * kSplitters < tile.end) columns.copy(begin + i * kSplitters, i);
        copies_begun();
    }
    Turn raw = {0, 0}, to = {splitter, 1};  // in the first round every slot is free
    for (int chunk = begin; chunk < tile.end; chunk += kSplitters) {
        copies_made<kRaw - 1>();
        splitters_meet(splitter);
        matrix::barrier_wait(ring.free + to.stage, to.parity);
        split.split(columns, ring.split + to.stage * Shape::kSplitBytes, ring.factors + to.stage * kGroups,
                    own + raw.stage * kColumnBytes<N>, chunk);
        sm90::stores_made();
        matrix::barrier_arrive(ring.full + to.stage);
        splitters_meet(splitter);  // all splitting threads have read their values
        if (chunk + kRaw * kSplitters < tile.end) columns.copy(chunk + kRaw * kSplitters, raw.stage);
        copies_begun();
        raw.next(kRaw);
        for (int i = 0; i < kSplitters; ++i) to.next(Shape::kSplit);
    }
    copies_made<0>();
    return split.in_doubt;
}

// Splits a warp's next chunk from its ring, and refills the ring.
template <int RAW, class Left>
__device__ __forceinline__ void next_rows(Left& next, LeftRows& rows, Turn& raw, int chunk, int end) {
    float2 v[2][4];
    copies_made<RAW - 1>();
    __syncwarp();
    rows.read(v, raw.stage);
    __syncwarp();
    if (chunk + RAW < end) rows.copy(chunk + RAW, raw.stage);
    copies_begun();
    raw.next(RAW);
    next.split(v);
}

template <int N, class Split>
__device__ __forceinline__ void add_chunk(float (&sum)[N / 2], float (&partial)[N / 2], Split& split, const typename Split::Left& left,
                                          const ReadRing<N, Split>& ring, Turn& from) {
    const typename Split::Factors factors(split, left, ring.factors + from.stage * kGroups);
    sm90::products_done<0>(partial);
    matrix::barrier_arrive(ring.free + from.stage);
    from.next(ReadShape<N, Split::kParts>::kSplit);
    #pragma unroll
    for (int i = 0; i < N / 2; ++i) sum[i] = factors.template added<N>(sum[i], partial[i], i);
}

// Multiplies the tile's rows. While the products of a chunk run, the next chunk is split.
template <int N, class Split>
__device__ __forceinline__ void multiply_rows(const ReadOnce& p, const ReadTile& tile, const ReadRing<N, Split>& ring, Split& split,
                                              float (&sum)[N / 2]) {
    using Shape = ReadShape<N, Split::kParts>;
    const int warp = threadIdx.x / 32;
    LeftRows rows(p.left, tile.first_left + warp * kWarpRows, p.depth, tile.begin, ring.left + warp * Shape::kRaw * kWarpBytes);
    #pragma unroll 1
    for (int i = 0; i < Shape::kRaw; ++i) {
        if (tile.begin + i < tile.end) rows.copy(tile.begin + i, i);
        copies_begun();
    }
    float partial[N / 2];
    #pragma unroll
    for (int i = 0; i < N / 2; ++i) sum[i] = partial[i] = 0.0f;
    Turn raw = {0, 0}, from = {0, 0};
    const auto columns = static_cast<uint32_t>(matrix::pieces_descriptor(ring.split, N, 8));
    const uint32_t first_columns = __shfl_sync(0xffffffffu, columns, 0);  // equal in all lanes, for a uniform register
    typename Split::Left one, other;
    const auto multiply = [&](const typename Split::Left& left) {
        multiply_chunk<N>(partial, left, first_columns + from.stage * (Shape::kSplitBytes / 16));
    };
    const auto next_is_split = [&](typename Split::Left& left, int chunk) {
        next_rows<Shape::kRaw>(left, rows, raw, chunk, tile.end);
        Turn next = from;
        next.next(Shape::kSplit);
        matrix::barrier_wait(ring.full + next.stage, next.parity);
    };
    next_rows<Shape::kRaw>(one, rows, raw, tile.begin, tile.end);
    other = one;
    matrix::barrier_wait(ring.full, 0);
    // Hiding from the compiler that both ends are equal keeps it from moving the split behind the products.
    int chunk = tile.begin, same_end = tile.end;
    keep(same_end);
    for (; chunk + 2 <= tile.end; chunk += 2) {
        multiply(one);
        if (chunk + 1 < same_end) next_is_split(other, chunk + 1);
        add_chunk<N>(sum, partial, split, one, ring, from);
        multiply(other);
        if (chunk + 2 < same_end) next_is_split(one, chunk + 2);
        add_chunk<N>(sum, partial, split, other, ring, from);
    }
    if (chunk < tile.end) {
        multiply(one);
        add_chunk<N>(sum, partial, split, one, ring, from);
    }
    copies_made<0>();
}

// Stores the sums with few instructions, since a product of small depth waits for them. c and other parts are not added here.
template <int N>
__device__ __forceinline__ void store_part(const ReadOnce& p, const ReadTile& tile, const float (&sum)[N / 2]) {
    const int row = tile.first_left + static_cast<int>(threadIdx.x) / 32 * kWarpRows + static_cast<int>(threadIdx.x) % 32 / 4;
    const int column = tile.first_right + static_cast<int>(threadIdx.x) % 4 * 2;
    const int64_t row_step = p.turned ? 1 : p.n, column_step = p.turned ? p.n : 1;
    float* to = p.to + int64_t{tile.part} * p.m * p.n + row * row_step + column * column_step;
    #pragma unroll
    for (int j = 0; j < N / 8; ++j, to += 8 * column_step) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const bool is_there = row + i / 2 * 8 < p.left.rows && column + 8 * j + i % 2 < p.right.rows;
            if (is_there) to[i / 2 * 8 * row_step + i % 2 * column_step] = p.factor * sum[4 * j + i];
        }
    }
}

// Returns true if any row has lost too much accuracy, or the sums of half of the rows (four threads each) are short (anew.cuh). All threads
// call it.
__device__ __forceinline__ bool all_doubt(const Halves::Doubt& mine) {
    const bool lost = __syncthreads_or(mine.lost);
    return __syncthreads_count(mine.is_short) >= kLeftThreads / 2 || lost;
}

// Multiplies a tile. With HALVES two fp16 per value are tried first, and three bf16 used if two fp16 are not enough.
template <int N, bool HALVES>
__global__ void __launch_bounds__(kReadThreads, 1) matmul_read_once(const __grid_constant__ ReadOnce p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // this kernel is never called on other architectures
    extern __shared__ unsigned char shared[];
    const ReadRing<N, Halves> ring(shared);
    const ReadRing<N, Thirds> ring_again(shared, true);
    if (threadIdx.x == 0) {
        if (HALVES) ring.begin();
        ring_again.begin();
        matrix::barriers_made();
    }
    __syncthreads();
    await_earlier();
    let_next_begin();  // the next kernel waits for the end of this kernel, and has no room before
    const ReadTile tile = ReadTile::of<N>(p);
    if (threadIdx.x >= kLeftThreads) {
        sm90::give_registers<kRightRegisters<HALVES>>();
        if (HALVES) {
            if (!all_doubt({split_columns<N>(p, tile, ring), false})) return;
        }
        split_columns<N>(p, tile, ring_again);
    } else {
        sm90::take_registers<kLeftRegisters<HALVES>>();
        if (HALVES) {
            float sum[N / 2];
            Halves split;
            multiply_rows<N>(p, tile, ring, split, sum);
            if (!all_doubt(split.doubt_of<N>(sum))) {
                store_part<N>(p, tile, sum);
                return;
            }
        }
        float sum[N / 2];
        Thirds split;
        multiply_rows<N>(p, tile, ring_again, split, sum);
        store_part<N>(p, tile, sum);
    }
#endif
}

template <int N>
constexpr int kReadBytes = std::max(ReadShape<N, Halves::kParts>::kBytes, ReadShape<N, Thirds::kParts>::kBytes);

template <int N, bool HALVES>
cudaError_t read_once_by(const ReadOnce& p, cudaStream_t stream) {
    constexpr int kBytes = kReadBytes<N>;
    const auto kernel = matmul_read_once<N, HALVES>;
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   kBytes);
    if (error != cudaSuccess) return error;
    return launched_with(kernel, static_cast<unsigned>(p.left_tiles * p.right_tiles * p.parts), kReadThreads, kBytes, stream, p);
}

}  // namespace kernelwright::matmul
