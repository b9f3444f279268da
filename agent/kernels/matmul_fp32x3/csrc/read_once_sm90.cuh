// Products of few tiles and a large depth, on sm_90a: both operands are read once, as they lie, and split within the SM, so that no
// kernel splits them before and nothing of them is stored.
//
// A block has a tile of 128 rows and N columns, and a part of the depth, which it goes through 32 at a time. Each warp of two
// warpgroups copies 16 rows into its own ring, splits them in its registers, where the products take them from, and adds the sums of
// each 32 of depth to its own in float arithmetic; meanwhile the other warpgroup has the tensor cores. A third warpgroup copies the
// columns, splits them and stores them as the products read them. Values are three bf16 each (thirds_sm90.cuh) rather than two fp16:
// twice as many products, which the memory's rate leaves time for, and neither scales nor anything that small values lose.
//
// The left operand's rows are y's columns (`turned`), or its rows where it has few columns.
#pragma once

#include "product_sm90.cuh"
#include "registers_sm90.cuh"
#include "strips_sm90.cuh"

namespace kernelwright::matmul {

struct ReadOnce {
    Strip left, right;
    int depth, chunks;
    int parts;  // of the depth
    int left_tiles, right_tiles;
    int m, n;      // of y
    bool turned;   // left rows are y's columns
    float* to;     // the parts' sums, [parts, m, n], or y
    float factor;  // of what is stored there
    Outcome out;   // of the parts

    __device__ __forceinline__ int begin_of(int part) const { return static_cast<int>(int64_t{chunks} * part / parts); }
};

// The products of a chunk, issued as one group: the small ones first, while there is nothing large to cut them off against.
template <int N>
__device__ __forceinline__ void multiply_thirds(float (&partial)[N / 2], const LeftThirds& left, const unsigned char* right) {
    constexpr int kProducts = 6;
    constexpr int kOf[kProducts][2] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}};
    matrix::matrix_begin();
    #pragma unroll
    for (int i = 0; i < 2 * kProducts; ++i) {
        const unsigned char* of_right = right + kOf[i / 2][1] * ReadShape<N>::kPartBytes + i % 2 * 2 * N * 16;
        multiply_registers(partial, left.of[kOf[i / 2][0]][i % 2], matrix::pieces_descriptor(of_right, N, 8), i > 0);
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

template <int N>
struct ReadRing {
    using Shape = ReadShape<N>;
    unsigned char *left, *right, *split;
    uint64_t *full, *free;

    __device__ __forceinline__ explicit ReadRing(unsigned char* shared) {
        const uint32_t past = matrix::shared_address(shared) % matrix::kAtomBytes;
        left = shared + (past == 0 ? 0 : matrix::kAtomBytes - past);
        right = left + Shape::kRaw * Shape::kLeftBytes;
        split = right + Shape::kRaw * Shape::kRightBytes;
        full = reinterpret_cast<uint64_t*>(split + Shape::kSplit * Shape::kSplitBytes);
        free = full + Shape::kSplit;
    }
};

__device__ __forceinline__ void splitters_meet(int splitter) {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + splitter), "n"(kRightThreads) : "memory");
}

// By each of two warpgroups: the columns of every other chunk of the tile, split.
template <int N>
__device__ __forceinline__ void split_columns(const ReadOnce& p, const ReadTile& tile, const ReadRing<N>& ring) {
    using Shape = ReadShape<N>;
    constexpr int kRaw = Shape::kRaw / kSplitters;
    const int splitter = (static_cast<int>(threadIdx.x) - kLeftThreads) / kRightThreads;
    const RightColumns<N> columns(p.right, tile.first_right, p.depth);
    unsigned char* own = ring.right + splitter * kRaw * Shape::kRightBytes;
    const int begin = tile.begin + splitter;
    #pragma unroll 1
    for (int i = 0; i < kRaw; ++i) {
        if (begin + i * kSplitters < tile.end) columns.copy(own + i * Shape::kRightBytes, begin + i * kSplitters);
        copies_begun();
    }
    Turn raw = {0, 0}, to = {splitter, 1};  // the first round finds every place free
    for (int chunk = begin; chunk < tile.end; chunk += kSplitters) {
        unsigned char* from = own + raw.stage * Shape::kRightBytes;
        copies_made<kRaw - 1>();
        splitters_meet(splitter);
        matrix::barrier_wait(ring.free + to.stage, to.parity);
        columns.split(ring.split + to.stage * Shape::kSplitBytes, from, chunk);
        sm90::stores_made();
        matrix::barrier_arrive(ring.full + to.stage);
        splitters_meet(splitter);  // all have read theirs
        if (chunk + kRaw * kSplitters < tile.end) columns.copy(from, chunk + kRaw * kSplitters);
        copies_begun();
        raw.next(kRaw);
        for (int i = 0; i < kSplitters; ++i) to.next(Shape::kSplit);
    }
    copies_made<0>();
}

// A warp's next chunk, from its ring, which it keeps filled.
template <int N>
__device__ __forceinline__ void next_rows(LeftThirds& next, const LeftRows& rows, Turn& raw, int chunk, int end) {
    constexpr int kRaw = ReadShape<N>::kRaw;
    float2 v[2][4];
    copies_made<kRaw - 1>();
    __syncwarp();
    rows.read(v, raw.stage);
    __syncwarp();
    if (chunk + kRaw < end) rows.copy(chunk + kRaw, raw.stage);
    copies_begun();
    raw.next(kRaw);
    next.split(v);
}

template <int N>
__device__ __forceinline__ void add_chunk(float (&sum)[N / 2], float (&partial)[N / 2], const ReadRing<N>& ring, Turn& from) {
    sm90::products_done<0>(partial);
    matrix::barrier_arrive(ring.free + from.stage);
    from.next(ReadShape<N>::kSplit);
    #pragma unroll
    for (int i = 0; i < N / 2; ++i) sum[i] += partial[i];
}

// While the products of a chunk run, the next one is split.
template <int N>
__device__ __forceinline__ void multiply_rows(const ReadOnce& p, const ReadTile& tile, const ReadRing<N>& ring, float (&sum)[N / 2]) {
    using Shape = ReadShape<N>;
    const int warp = threadIdx.x / 32;
    const LeftRows rows(p.left, tile.first_left + warp * kWarpRows, p.depth, ring.left + warp * Shape::kRaw * kWarpBytes);
    #pragma unroll 1
    for (int i = 0; i < Shape::kRaw; ++i) {
        if (tile.begin + i < tile.end) rows.copy(tile.begin + i, i);
        copies_begun();
    }
    float partial[N / 2];
    #pragma unroll
    for (int i = 0; i < N / 2; ++i) sum[i] = partial[i] = 0.0f;
    Turn raw = {0, 0}, from = {0, 0};
    LeftThirds first, second;
    const auto multiply = [&](const LeftThirds& left) {
        matrix::barrier_wait(ring.full + from.stage, from.parity);
        multiply_thirds<N>(partial, left, ring.split + from.stage * Shape::kSplitBytes);
    };
    next_rows<N>(first, rows, raw, tile.begin, tile.end);
    int chunk = tile.begin;
    for (; chunk + 2 <= tile.end; chunk += 2) {
        multiply(first);
        next_rows<N>(second, rows, raw, chunk + 1, tile.end);
        add_chunk<N>(sum, partial, ring, from);
        multiply(second);
        if (chunk + 2 < tile.end) next_rows<N>(first, rows, raw, chunk + 2, tile.end);
        add_chunk<N>(sum, partial, ring, from);
    }
    if (chunk < tile.end) {
        multiply(first);
        add_chunk<N>(sum, partial, ring, from);
    }
    copies_made<0>();
}

// In few instructions, which a short product waits for: nothing is added here.
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

template <int N>
__global__ void __launch_bounds__(kReadThreads, 1) matmul_read_once(const __grid_constant__ ReadOnce p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // elsewhere nobody calls it
    extern __shared__ unsigned char shared[];
    const ReadRing<N> ring(shared);
    if (threadIdx.x == 0) {
        for (int i = 0; i < ReadShape<N>::kSplit; ++i) {
            matrix::barrier_init(ring.full + i, kRightThreads);
            matrix::barrier_init(ring.free + i, kLeftThreads);
        }
        matrix::barriers_made();
    }
    __syncthreads();
    await_earlier();
    let_next_begin();  // it waits for this one's end, and finds no room until then
    const ReadTile tile = ReadTile::of<N>(p);
    if (threadIdx.x >= kLeftThreads) {
        sm90::give_registers<kRightRegisters>();
        split_columns<N>(p, tile, ring);
    } else {
        sm90::take_registers<kLeftRegisters>();
        float sum[N / 2];
        multiply_rows<N>(p, tile, ring, sum);
        store_part<N>(p, tile, sum);
    }
#endif
}

constexpr int kAddThreads = 256;
constexpr int kManyParts = 16;  // more than that are shared out
constexpr int kAddShares = 8;

// Elements that a block adds up.
inline int added_by_block(int64_t parts) { return kAddThreads / (parts > kManyParts ? kAddShares : 1); }

// Adds the parts up, in an order that is the same in every run: where they are many, in shares, one of a warp.
__global__ void __launch_bounds__(kAddThreads) matmul_add_parts(const __grid_constant__ ReadOnce p) {
    __shared__ float of_shares[kAddThreads];
    await_earlier();
    const int shares = p.parts > kManyParts ? kAddShares : 1, elements = kAddThreads / shares;
    const int share = static_cast<int>(threadIdx.x) / elements;
    const int64_t count = int64_t{p.m} * p.n, at = static_cast<int64_t>(blockIdx.x) * elements + threadIdx.x % elements;
    const int begin = p.parts * share / shares, end = p.parts * (share + 1) / shares;
    float sum = at < count ? __ldcg(p.to + begin * count + at) : 0.0f;
    #pragma unroll 8
    for (int part = begin + 1; part < end; ++part) sum += at < count ? __ldcg(p.to + part * count + at) : 0.0f;
    if (shares > 1) {
        of_shares[threadIdx.x] = sum;
        __syncthreads();
        if (share > 0) return;
        for (int other = 1; other < kAddShares; ++other) sum += of_shares[other * elements + threadIdx.x];
    }
    if (at < count) p.out.y[at] = finished(p.out, sum, 0, at / p.n, at % p.n);
}

template <int N>
cudaError_t read_once_by(const ReadOnce& p, cudaStream_t stream) {
    constexpr int kBytes = ReadShape<N>::kBytes;
    const auto kernel = matmul_read_once<N>;
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   kBytes);
    if (error != cudaSuccess) return error;
    return launched_with(kernel, static_cast<unsigned>(p.left_tiles * p.right_tiles * p.parts), kReadThreads, kBytes, stream, p);
}

}  // namespace kernelwright::matmul
