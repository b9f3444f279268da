// How a block of the products that read their operands once (read_once_sm90.cuh) copies them into shared memory as they lie, and splits
// them there: rows of the left operand by the warps that multiply, into registers, columns of the right one for all.
#pragma once

#include "../../csrc/warpgroups_sm90.cuh"
#include "thirds_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kChunk = 32;       // of depth: two products' worth, in 128 bytes of float
constexpr int kLeftRows = 128;   // of a tile
constexpr int kWarpRows = 16;
constexpr int kLeftThreads = 256;
constexpr int kRightThreads = 128;  // of a warpgroup that splits columns; there are two, which take chunks in turn
constexpr int kSplitters = 2;
constexpr int kReadThreads = kLeftThreads + kSplitters * kRightThreads;
constexpr int kLeftRegisters = 208;
constexpr int kRightRegisters = 48;
// Registers of a block come in eights for each thread; one that asks for more than it began with waits for ever.
static_assert(kLeftThreads * kLeftRegisters + kSplitters * kRightThreads * kRightRegisters <= kReadThreads * (65536 / kReadThreads / 8 * 8));
constexpr int kWarpBytes = kWarpRows * kChunk * static_cast<int>(sizeof(float));

// Rows of an operand, m of a or n of b, and their depth.
struct Strip {
    const float* values;
    int64_t step;  // from row to row
    int rows;
    bool across;   // or, where rows are neighbours in memory, from depth to depth
};

// What a block of N columns has in shared memory: chunks that are on their way or not split yet, and columns that are split.
template <int N>
struct ReadShape {
    static constexpr int kRaw = N == 128 ? 4 : N == 64 ? 6 : 8;
    static constexpr int kSplit = 4;
    static constexpr int kLeftBytes = kLeftRows / kWarpRows * kWarpBytes;
    static constexpr int kRightBytes = N * kChunk * static_cast<int>(sizeof(float));
    static constexpr int kPartBytes = N * kChunk * 2;
    static constexpr int kSplitBytes = kThirds * kPartBytes;
    static constexpr int kBytes = kRaw * (kLeftBytes + kRightBytes) + kSplit * (kSplitBytes + 2 * 8) + matrix::kAtomBytes;
};

// 16 bytes on their way to shared memory, of which the first are there and the others 0.
__device__ __forceinline__ void copy_four(void* to, const float* from, int bytes) {
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(matrix::shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copies_begun() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// All but the LATER last groups of this thread.
template <int LATER>
__device__ __forceinline__ void copies_made() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

// What THREADS copy of a chunk of ROWS rows that lie 16 bytes at a time: each thread COUNT pieces. Along the depth eight threads have a row;
// across, ROWS / 4 a depth. Of rows past the end nothing counts: others stand in their place.
template <int ROWS, int THREADS>
struct Copies {
    static constexpr int kCount = ROWS * kChunk / 4 / THREADS, kAcross = ROWS / 4;
    const Strip& of;
    const float* from;  // of the first piece of chunk 0
    int pieces;         // that are there
    int bytes;          // of each, but in a last chunk that is not whole
    uint32_t to;        // its place in shared memory; the next one's is 16 * THREADS bytes further

    __device__ __forceinline__ Copies(const Strip& of, int first, int place) : of(of), to(place) {
        const int thread = threadIdx.x % THREADS, row = first + (of.across ? thread % kAcross * 4 : thread / 8), left = of.rows - row;
        bytes = of.across ? min(max(left, 0), 4) * 4 : 16;
        pieces = of.across ? kCount : left > 0 ? (left + THREADS / 8 - 1) / (THREADS / 8) : 1;
        from = of.values + (left > 0 ? row : 0) * (of.across ? 1 : of.step) + (of.across ? thread / kAcross * of.step : thread % 8 * 4);
    }

    __device__ __forceinline__ void copy(unsigned char* slot, int chunk, int depth) const {
        const int64_t step = (of.across ? THREADS / kAcross : THREADS / 8) * of.step;
        const float* piece = from + chunk * (of.across ? kChunk * of.step : kChunk);
        if (depth - chunk * kChunk >= kChunk) {
            #pragma unroll
            for (int i = 0; i < kCount; ++i, piece += i < pieces ? step : 0) copy_four(slot + to + i * 16 * THREADS, piece, bytes);
            return;
        }
        const int thread = threadIdx.x % THREADS;
        #pragma unroll 1
        for (int i = 0; i < kCount; ++i, piece += i < pieces ? step : 0) {
            const int left = depth - chunk * kChunk - (of.across ? thread / kAcross + i * (THREADS / kAcross) : thread % 8 * 4);
            const int there = of.across ? (left > 0 ? bytes : 0) : min(max(left, 0), 4) * 4;
            copy_four(slot + to + i * 16 * THREADS, there > 0 ? piece : of.values, there);
        }
    }
};

// The 16 rows of a warp. In memory [row][32 of depth], or across [2 of depth][2][16 rows]; 16-byte pieces of 128 change places so that
// what 16 lanes read lies in different banks.
struct LeftRows {
    Copies<kWarpRows, 32> copies;
    unsigned char* ring;
    int depth;
    bool across;

    __device__ __forceinline__ static int place_of(bool across) {
        const int lane = threadIdx.x % 32, piece = across ? lane / 4 % 2 * 4 + lane % 4 : lane % 8;
        return lane / 8 * 128 + (piece ^ lane / 8 * 2) * 16;
    }
    __device__ __forceinline__ LeftRows(const Strip& of, int first, int depth, unsigned char* ring)
        : copies(of, first, place_of(of.across)), ring(ring), depth(depth), across(of.across) {}

    __device__ __forceinline__ void copy(int chunk, int slot) const { copies.copy(ring + slot * kWarpBytes, chunk, depth); }

    // v[row of two][pair]: rows lane / 4 and 8 further, depths lane % 4 * 2 + 8 * pair and the next one.
    __device__ __forceinline__ void read(float2 (&v)[2][4], int slot) const {
        const int lane = threadIdx.x % 32, quarter = lane % 4, row = lane / 4;
        const unsigned char* from = ring + slot * kWarpBytes;
        if (across) {
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int place = (row / 4 + i % 2 * 2) ^ quarter * 2;
                const unsigned char* two = from + (quarter + i / 2 * 4) * 128 + row % 4 * 4;
                v[i % 2][i / 2] = {*reinterpret_cast<const float*>(two + place * 16), *reinterpret_cast<const float*>(two + (place ^ 4) * 16)};
            }
            return;
        }
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int place = (quarter / 2 + i / 2 * 2) ^ row % 4 * 2;
            v[i % 2][i / 2] = *reinterpret_cast<const float2*>(from + (row + i % 2 * 8) * 128 + place * 16 + quarter % 2 * 8);
        }
    }
};

// A chunk of a warp's rows as the products take it, two of 16 in depth.
struct LeftThirds {
    uint32_t of[kThirds][2][4];

    __device__ __forceinline__ void put(int i, const Pair& pair) {
        #pragma unroll
        for (int part = 0; part < kThirds; ++part) of[part][i / 4][i % 4] = pair.of[part];
    }
    __device__ __forceinline__ void split(const float2 (&v)[2][4]) {
        uint32_t seen = 0;
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float2 two = v[i % 2][i / 2];
            const Pair pair = nearest_thirds(two.x, two.y);
            put(i, pair);
            note_nan(seen, pair);
        }
        if (!has_nan(seen)) return;
        #pragma unroll
        for (int i = 0; i < 8; ++i) put(i, any_thirds(v[i % 2][i / 2].x, v[i % 2][i / 2].y));
    }
};

// N columns. In memory as they lie, [column][32 of depth] with its pieces in places by the column's number, or [depth][column].
template <int N>
struct RightColumns {
    using Shape = ReadShape<N>;
    Copies<N, kRightThreads> copies;
    int first, depth;
    bool across;

    __device__ __forceinline__ static int place_of(bool across, int thread) {
        return across ? thread * 16 : thread / 8 * 128 + (thread % 8 ^ thread / 8 % 8) * 16;
    }
    __device__ __forceinline__ RightColumns(const Strip& of, int first, int depth)
        : copies(of, first, place_of(of.across, threadIdx.x % kRightThreads)), first(first), depth(depth), across(of.across) {}

    __device__ __forceinline__ void copy(unsigned char* to, int chunk) const { copies.copy(to, chunk, depth); }

    // Eight neighbours in depth of a column.
    __device__ __forceinline__ void read(float (&v)[8], const unsigned char* from, int column, int eighth) const {
        if (across) {
            #pragma unroll
            for (int i = 0; i < 8; ++i) v[i] = reinterpret_cast<const float*>(from)[(eighth * 8 + i) * N + column];
            return;
        }
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float4 four = *reinterpret_cast<const float4*>(from + column * 128 + ((eighth * 2 + i) ^ column % 8) * 16);
            v[4 * i] = four.x, v[4 * i + 1] = four.y, v[4 * i + 2] = four.z, v[4 * i + 3] = four.w;
        }
    }

    // As pieces_descriptor has them: of each part [eight of depth][column][8].
    __device__ __forceinline__ void split(unsigned char* to, const unsigned char* from, int chunk) const {
        #pragma unroll
        for (int i = threadIdx.x % kRightThreads; i < N * kChunk / 8; i += kRightThreads) {
            const int column = i % N, eighth = i / N;
            float v[8];
            read(v, from, column, eighth);
            Pair pairs[4];
            uint32_t seen = 0, drawn = linear::drawn_for(static_cast<uint32_t>(first + column), static_cast<uint32_t>(chunk * 4 + eighth));
            #pragma unroll
            for (int j = 0; j < 4; ++j, drawn = drawn * 0x915f77f5u + 0x93d765ddu) {
                pairs[j] = drawn_thirds(v[2 * j], v[2 * j + 1], drawn);
                note_nan(seen, pairs[j]);
            }
            if (has_nan(seen)) {
                #pragma unroll
                for (int j = 0; j < 4; ++j) pairs[j] = any_thirds(v[2 * j], v[2 * j + 1]);
            }
            #pragma unroll
            for (int part = 0; part < kThirds; ++part) {
                *reinterpret_cast<uint4*>(to + part * Shape::kPartBytes + i * 16) =
                    uint4{pairs[0].of[part], pairs[1].of[part], pairs[2].of[part], pairs[3].of[part]};
            }
        }
    }
};

}  // namespace kernelwright::matmul
