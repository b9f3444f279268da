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
constexpr int kRightThreads = 128;
constexpr int kReadThreads = kLeftThreads + kRightThreads;
constexpr int kLeftRegisters = 216;
constexpr int kRightRegisters = 72;
// Registers of a block come in eights for each thread; one that asks for more than it began with waits for ever.
static_assert(kLeftThreads * kLeftRegisters + kRightThreads * kRightRegisters <= kReadThreads * (65536 / kReadThreads / 8 * 8));
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
    static constexpr int kSplit = N == 128 ? 3 : 4;
    static constexpr int kLeftBytes = kLeftRows / kWarpRows * kWarpBytes;
    static constexpr int kRightBytes = N * kChunk * static_cast<int>(sizeof(float));
    static constexpr int kPartBytes = N * kChunk * 2;
    static constexpr int kSplitBytes = kThirds * kPartBytes;
    static constexpr int kBytes = kRaw * (kLeftBytes + kRightBytes) + kSplit * (kSplitBytes + 2 * 8) + matrix::kAtomBytes;
};

// 16 bytes on their way to shared memory, of which `values` floats are there and the others 0.
__device__ __forceinline__ void copy_four(void* to, const float* from, int values) {
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(matrix::shared_address(to)), "l"(from),
                 "r"(min(max(values, 0), 4) * 4)
                 : "memory");
}
__device__ __forceinline__ void copies_begun() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// All but the LATER last groups of this thread.
template <int LATER>
__device__ __forceinline__ void copies_made() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

// The 16 rows of a warp. In memory [row][32 of depth], or across [2 of depth][2][16 rows]; 16-byte pieces of 128 change places so that
// what 16 lanes read lies in different banks.
struct LeftRows {
    const Strip& of;
    int first, depth;
    unsigned char* ring;

    __device__ __forceinline__ void copy(int chunk, int slot) const {
        const int lane = threadIdx.x % 32, begin = chunk * kChunk;
        unsigned char* to = ring + slot * kWarpBytes;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (of.across) {
                const int at = i * 8 + lane / 4, piece = (at % 2 * 4 + lane % 4) ^ at / 2 % 4 * 2;
                const int row = first + lane % 4 * 4, there = begin + at < depth ? of.rows - row : 0;
                copy_four(to + at / 2 * 128 + piece * 16, there > 0 ? of.values + (begin + at) * of.step + row : of.values, there);
            } else {
                const int row = i * 4 + lane / 8, at = begin + lane % 8 * 4, piece = lane % 8 ^ row % 4 * 2;
                const int there = first + row < of.rows ? depth - at : 0;
                copy_four(to + row * 128 + piece * 16, there > 0 ? of.values + (first + row) * of.step + at : of.values, there);
            }
        }
    }

    // v[row of two][pair]: rows lane / 4 and 8 further, depths lane % 4 * 2 + 8 * pair and the next one.
    __device__ __forceinline__ void read(float2 (&v)[2][4], int slot) const {
        const int lane = threadIdx.x % 32, quarter = lane % 4;
        const unsigned char* from = ring + slot * kWarpBytes;
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int row = lane / 4 + i % 2 * 8, pair = i / 2;
            if (of.across) {
                const unsigned char* two = from + (quarter + 4 * pair) * 128 + row % 4 * 4;
                const auto at = [&](int next) { return *reinterpret_cast<const float*>(two + ((next * 4 + row / 4) ^ quarter * 2) * 16); };
                v[i % 2][pair] = {at(0), at(1)};
            } else {
                const int piece = (quarter / 2 + 2 * pair) ^ row % 4 * 2;
                v[i % 2][pair] = *reinterpret_cast<const float2*>(from + row * 128 + piece * 16 + quarter % 2 * 8);
            }
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
    const Strip& of;
    int first, depth;

    __device__ __forceinline__ void copy(unsigned char* to, int chunk) const {
        const int thread = threadIdx.x % kRightThreads, begin = chunk * kChunk;
        #pragma unroll
        for (int i = 0; i < N / 16; ++i) {
            if (of.across) {
                const int number = i * kRightThreads + thread, at = begin + number / (N / 4), column = first + number % (N / 4) * 4;
                const int there = at < depth ? of.rows - column : 0;
                copy_four(to + number * 16, there > 0 ? of.values + at * of.step + column : of.values, there);
            } else {
                const int column = i * 16 + thread / 8, at = begin + thread % 8 * 4, piece = thread % 8 ^ column % 8;
                const int there = first + column < of.rows ? depth - at : 0;
                copy_four(to + column * 128 + piece * 16, there > 0 ? of.values + (first + column) * of.step + at : of.values, there);
            }
        }
    }

    // Eight neighbours in depth of a column.
    __device__ __forceinline__ void read(float (&v)[8], const unsigned char* from, int column, int eighth) const {
        if (of.across) {
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
            uint32_t seen = 0;
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                const uint32_t drawn = linear::drawn_for(static_cast<uint32_t>(first + column), static_cast<uint32_t>(chunk * 16 + eighth * 4 + j));
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
