// Copies for the products that read their operands once (read_once_sm90.cuh): into shared memory in memory order, and from there into
// registers to be split. Each warp that multiplies copies its own rows of the left operand; columns of the right operand are shared.
#pragma once

#include "../../csrc/warpgroups_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kChunk = 32;       // depths per chunk: two products, and 128 bytes of float
constexpr int kLeftRows = 128;   // rows of a tile
constexpr int kWarpRows = 16;
constexpr int kLeftThreads = 256;
constexpr int kRightThreads = 128;  // per warpgroup that splits columns; two of them alternate between chunks
constexpr int kSplitters = 2;
constexpr int kGroups = kRightThreads / 32;  // groups of columns, one per warp
constexpr int kReadThreads = kLeftThreads + kSplitters * kRightThreads;
constexpr int kWarpBytes = kWarpRows * kChunk * static_cast<int>(sizeof(float));

// One operand by its rows (m rows of a or n columns of b).
struct Strip {
    const float* values;
    int64_t step;  // stride between rows, or between depths if `across`
    int rows;
    bool across;   // contiguous along rows instead of along the depth
};

template <int N>
constexpr int kColumnBytes = N * kChunk * static_cast<int>(sizeof(float));  // bytes of N unsplit columns of a chunk
template <int N>
constexpr int kPartBytes = N * kChunk * 2;  // bytes of one part of N split columns of a chunk

// Shared memory of a block with N columns: rings of unsplit chunks, and of columns split into PARTS.
template <int N, int PARTS>
struct ReadShape {
    static constexpr int kRaw = N == 128 ? 4 : N == 64 ? 6 : 8;  // slots of the ring of unsplit rows
    static constexpr int kRawColumns = N == 128 && PARTS == 2 ? 6 : kRaw;
    static constexpr int kSplit = 4;
    static constexpr int kLeftBytes = kLeftRows / kWarpRows * kWarpBytes;
    static constexpr int kSplitBytes = PARTS * kPartBytes<N>;
    static constexpr int kRings = kRaw * kLeftBytes + kRawColumns * kColumnBytes<N> + kSplit * kSplitBytes;
    // The barriers of two passes, the scales of the columns' groups, and alignment of the rings.
    static constexpr int kBytes = kRings + kSplit * (4 * 8 + kGroups * static_cast<int>(sizeof(float))) + 2 * matrix::kAtomBytes;
};

// Starts an asynchronous copy of 16 bytes to shared memory: the first `bytes` from memory, the rest zeros.
__device__ __forceinline__ void copy_four(uint32_t to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copies_begun() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all but the last LATER copy groups of this thread.
template <int LATER>
__device__ __forceinline__ void copies_made() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

// Keeps a value in a register. The compiler would recompute it for each chunk, which costs more than the register.
__device__ __forceinline__ void keep(uint32_t& v) { asm volatile("" : "+r"(v)); }
__device__ __forceinline__ void keep(int& v) { asm volatile("" : "+r"(v)); }
__device__ __forceinline__ void keep(int64_t& v) { asm volatile("" : "+l"(v)); }

// Copies consecutive chunks of ROWS rows with THREADS threads, 16 bytes at a time, kCount pieces per thread and chunk. Along the depth
// eight threads share a row; across, ROWS / 4 threads share a depth. Rows past the end are replaced by existing rows, and their results
// never used.
template <int ROWS, int THREADS>
struct Copies {
    static constexpr int kCount = ROWS * kChunk / 4 / THREADS, kAcross = ROWS / 4;
    const Strip& of;
    const char* next;       // the first piece of the next chunk
    int64_t step, further;  // bytes between pieces and between chunks
    int pieces;             // number of the thread's pieces that exist
    int bytes;              // bytes of each piece, except in an incomplete last chunk
    int whole;              // number of complete chunks
    uint32_t to;            // first piece in the first slot; the next one is 16 * THREADS bytes further

    // Copies every `stride`-th chunk from `begin` on, `place` bytes into a slot.
    __device__ __forceinline__ Copies(const Strip& of, int first, int depth, int begin, int stride, const unsigned char* slots, int place)
        : of(of), whole(depth / kChunk), to(matrix::shared_address(slots) + place) {
        const int thread = threadIdx.x % THREADS, row = first + (of.across ? thread % kAcross * 4 : thread / 8), left = of.rows - row;
        const int64_t chunk = of.across ? kChunk * of.step : kChunk, bytes_of_float = sizeof(float);
        bytes = of.across ? min(max(left, 0), 4) * 4 : 16;
        pieces = of.across ? kCount : left > 0 ? (left + THREADS / 8 - 1) / (THREADS / 8) : 1;
        step = (of.across ? THREADS / kAcross : THREADS / 8) * of.step * bytes_of_float;
        further = stride * chunk * bytes_of_float;
        next = reinterpret_cast<const char*>(of.values + (left > 0 ? row : 0) * (of.across ? 1 : of.step) +
                                             (of.across ? thread / kAcross * of.step : thread % 8 * 4) + begin * chunk);
        keep(step), keep(further), keep(pieces), keep(bytes), keep(whole), keep(to);
    }

    __device__ __forceinline__ void copy(int slot_at, int chunk, int depth) {
        const char* piece = next;
        const uint32_t slot = to + slot_at;
        next += further;
        if (chunk < whole) {
            #pragma unroll
            for (int i = 0; i < kCount; ++i) {
                copy_four(slot + i * 16 * THREADS, piece, bytes);
                if (i + 1 < pieces) piece += step;
            }
            return;
        }
        const int thread = threadIdx.x % THREADS;
        #pragma unroll 1
        for (int i = 0; i < kCount; ++i) {
            const int left = depth - chunk * kChunk - (of.across ? thread / kAcross + i * (THREADS / kAcross) : thread % 8 * 4);
            const int there = of.across ? (left > 0 ? bytes : 0) : min(max(left, 0), 4) * 4;
            copy_four(slot + i * 16 * THREADS, there > 0 ? piece : reinterpret_cast<const char*>(of.values), there);
            if (i + 1 < pieces) piece += step;
        }
    }
};

__device__ __forceinline__ float one_at(uint32_t address) {
    float v;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
    return v;
}
__device__ __forceinline__ float2 two_at(uint32_t address) {
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
    return v;
}

// The 16 rows of a warp. Shared memory holds them as [row][32 of depth], or across as [2 of depth][2][16 rows]. 16-byte pieces are
// permuted within 128 bytes so that 16 lanes read different banks.
struct LeftRows {
    Copies<kWarpRows, 32> copies;
    uint32_t from;  // the lane's first value in the first slot; the next ones are at XOR 32, 64 and 96 bytes
    int depth;
    bool across;

    __device__ __forceinline__ static int place_of(bool across) {
        const int lane = threadIdx.x % 32, piece = across ? lane / 4 % 2 * 4 + lane % 4 : lane % 8;
        return lane / 8 * 128 + (piece ^ lane / 8 * 2) * 16;
    }
    // `ring` is aligned to 128 bytes.
    __device__ __forceinline__ LeftRows(const Strip& of, int first, int depth, int begin, const unsigned char* ring)
        : copies(of, first, depth, begin, 1, ring, place_of(of.across)), depth(depth), across(of.across) {
        const int lane = threadIdx.x % 32, quarter = lane % 4, row = lane / 4;
        from = matrix::shared_address(ring) + (across ? quarter * 128 + (row / 4 ^ quarter * 2) * 16 + row % 4 * 4
                                                      : row * 128 + (quarter / 2 ^ row % 4 * 2) * 16 + quarter % 2 * 8);
        keep(from);
    }

    __device__ __forceinline__ void copy(int chunk, int slot) { copies.copy(slot * kWarpBytes, chunk, depth); }

    // v[row][pair] has rows lane / 4 and lane / 4 + 8, depths lane % 4 * 2 + 8 * pair and the next one.
    __device__ __forceinline__ void read(float2 (&v)[2][4], int slot) const {
        uint32_t at[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) at[i] = (from ^ i * 32) + slot * kWarpBytes;
        if (across) {
            #pragma unroll
            for (int i = 0; i < 8; ++i) v[i % 2][i / 2] = {one_at(at[i % 2] + i / 2 * 512), one_at(at[i % 2 + 2] + i / 2 * 512)};
            return;
        }
        #pragma unroll
        for (int i = 0; i < 8; ++i) v[i % 2][i / 2] = two_at(at[i / 2] + i % 2 * 1024);
    }
};

// N columns. Shared memory holds them as [column][32 of depth] with pieces permuted by the column's number, or as [depth][column]. A
// warp splits a fourth of the columns, a thread kEights groups of eight adjacent depths of one column.
template <int N>
struct RightColumns {
    static constexpr int kOfWarp = N / kGroups, kEights = N / 32, kStep = 4 / kEights;
    Copies<N, kRightThreads> copies;
    int depth, column, eighth;  // the thread's column in the tile, and its first group of eight
    bool across;

    __device__ __forceinline__ static int place_of(bool across, int thread) {
        return across ? thread * 16 : thread / 8 * 128 + (thread % 8 ^ thread / 8 % 8) * 16;
    }
    __device__ __forceinline__ RightColumns(const Strip& of, int first, int depth, int begin, const unsigned char* ring)
        : copies(of, first, depth, begin, kSplitters, ring, place_of(of.across, threadIdx.x % kRightThreads)),
          depth(depth), across(of.across) {
        const int lane = threadIdx.x % 32;
        column = static_cast<int>(threadIdx.x) % kRightThreads / 32 * kOfWarp + lane % kOfWarp, eighth = lane / kOfWarp;
    }

    __device__ __forceinline__ void copy(int chunk, int slot) { copies.copy(slot * kColumnBytes<N>, chunk, depth); }

    // Reads the i-th group of eight.
    __device__ __forceinline__ void read(float (&v)[8], const unsigned char* from, int i) const {
        const int at = eighth + i * kStep;
        if (across) {
            #pragma unroll
            for (int j = 0; j < 8; ++j) v[j] = reinterpret_cast<const float*>(from)[(at * 8 + j) * N + column];
            return;
        }
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
            const float4 four = *reinterpret_cast<const float4*>(from + column * 128 + ((at * 2 + j) ^ column % 8) * 16);
            v[4 * j] = four.x, v[4 * j + 1] = four.y, v[4 * j + 2] = four.z, v[4 * j + 3] = four.w;
        }
    }
    // Offset of the i-th group within a part, in the layout of pieces_descriptor: [group of eight depths][column][8].
    __device__ __forceinline__ int place(int i) const { return ((eighth + i * kStep) * N + column) * 16; }
};

}  // namespace kernelwright::matmul
