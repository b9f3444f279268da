// y = alpha * a * b + beta * c over split operands (split_sm90.cuh), on sm_90a. Blocks are persistent, one per SM. One thread of
// the last warpgroup is the producer, which fills a ring of stages by bulk copies. Each of the other warpgroups multiplies 64
// rows of a tile of 128 x 128.
//
// After every 32 of K the sums leave the tensor cores, are scaled back and added in float arithmetic, which rounds where the
// tensor cores truncate. Two accumulators alternate: the tensor cores write one while the other is added. The warpgroups
// ping-pong as well (turns_sm90.cuh). With ALL, lo * lo is included. An infinity, which lies in lo, then meets lo of either sign,
// so results that are not finite are recomputed in float arithmetic.
#pragma once

#include "../../csrc/warpgroups_sm90.cuh"
#include "../../linear_fp32x3/csrc/product_sm90.cuh"
#include "schedule_sm90.cuh"
#include "split_sm90.cuh"
#include "turns_sm90.cuh"

namespace kernelwright::matmul {

using linear::kConsumers;
using linear::kStages;
using linear::kThreads;

constexpr int kConsumerRegisters = 232;
constexpr int kLoaderRegisters = 40;
constexpr int kStageBytes = kPackedBytes + kOperandBytes;  // a stage: a's packed tile and b's
constexpr int kSharedBytes = kStages * kStageBytes + matrix::kAtomBytes + 2 * kStages * 8;

struct Product {
    linear::Product tiles;     // sizes of one matrix; no other field is used
    const unsigned char* a;    // a, split and packed
    const unsigned char* b;
    int64_t a_bytes, b_bytes;  // batch strides; 0 if all share one matrix
    const int* exponents;      // exponents of b's columns
    int64_t b_rows;            // batch stride of `exponents`
    int batch;
    Schedule cut;
    Outcome out;
    float* partial;            // [parts, batch, m, n], or sums of streamed tiles' parts
    int* ended;
    Operands plain;            // the operands before the split
    bool all;                  // lo * lo is included
    int64_t y_part;            // Part of y that is wanted

    // Stages of a unit that exist in both operands, [first_of, past_of); none if no part of the tile of y is wanted.
    __device__ __forceinline__ int first_of(const Unit& unit, const linear::Tile& tile) const {
        return max(unit.begin, max(plain.a.first_stage(tile.of_x), plain.b.first_stage(tile.of_weight)));
    }
    __device__ __forceinline__ int past_of(const Unit& unit, const linear::Tile& tile) const {
        if (!is_there(y_part, tile.of_x, tile.of_weight)) return 0;
        return min(unit.end, min(plain.a.past_stage(tile.of_x), plain.b.past_stage(tile.of_weight)));
    }
    __device__ __forceinline__ int batch_of(int tile) const { return tile / tiles.tiles(); }
    __device__ __forceinline__ linear::Tile place_of(int tile) const { return linear::tile_at(tiles, tile % tiles.tiles()); }
};

// A slot of the ring and the parity of the slot's barrier.
struct Turn {
    int stage;
    uint32_t parity;

    __device__ __forceinline__ void next(int stages) {
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

struct Ring {
    unsigned char* stages;  // 1024-aligned; a's packed tile and b's in each
    uint64_t* full;
    uint64_t* free;
};

__device__ __forceinline__ Ring ring_in(unsigned char* shared, int stages, int stage_bytes) {
    const uint32_t past = matrix::shared_address(shared) % matrix::kAtomBytes;
    Ring ring;
    ring.stages = shared + (past == 0 ? 0 : matrix::kAtomBytes - past);
    ring.full = reinterpret_cast<uint64_t*>(ring.stages + stages * stage_bytes);
    ring.free = ring.full + stages;
    return ring;
}

// Keeps the ring filled; run by the producer thread.
__device__ __forceinline__ void load_units(const Product& p, const Ring& ring) {
    const int64_t stages = p.tiles.stages;
    const uint64_t policy = matrix::evict_last();
    Turn turn = {0, 1};  // in the first round every stage is free
    Units units(p.cut);
    for (Unit unit; units.next(p.cut, unit);) {
        const int batch = p.batch_of(unit.tile);
        const linear::Tile tile = p.place_of(unit.tile);
        const int begin = p.first_of(unit, tile);
        const unsigned char* a = p.a + batch * p.a_bytes + (tile.of_x * stages + begin) * kPackedBytes;
        const unsigned char* b = p.b + batch * p.b_bytes + (tile.of_weight * stages + begin) * kOperandBytes;
        for (int i = p.past_of(unit, tile) - begin; i > 0; --i, turn.next(kStages), a += kPackedBytes, b += kOperandBytes) {
            unsigned char* to = ring.stages + turn.stage * kStageBytes;
            matrix::barrier_wait(ring.free + turn.stage, turn.parity);
            matrix::barrier_expect(ring.full + turn.stage, kStageBytes);
            matrix::bulk_load(to, a, kPackedBytes, ring.full + turn.stage, policy);
            matrix::bulk_load(to + kPackedBytes, b, kOperandBytes, ring.full + turn.stage, policy);
        }
    }
}

// Computes one element in float arithmetic.
__device__ __noinline__ float in_float(const Product& p, int64_t batch, int64_t row, int64_t column) {
    const Operand &of_a = p.plain.a, &of_b = p.plain.b;
    const float* a = of_a.values + batch * of_a.batch_step + row * of_a.row_step;
    const float* b = of_b.values + batch * of_b.batch_step + column * of_b.row_step;
    const int64_t begin = max(of_a.begin_of(row), of_b.begin_of(column)), end = min(of_a.end_of(row), of_b.end_of(column));
    float sum = 0.0f;
    #pragma unroll 4
    for (int64_t i = begin; i < end; ++i) sum = fmaf(__ldg(a + i * of_a.depth_step), __ldg(b + i * of_b.depth_step), sum);
    return sum;
}

// Undoes the scaling by b's exponents and the margin. All exponents are loaded before anything is stored.
template <int N>
__device__ __forceinline__ void unscale(const Product& p, float (&sum)[N], int batch, int column) {
    const int* of_b = p.exponents + batch * p.b_rows + column;
    #pragma unroll
    for (int j = 0; j < N / 4; ++j) {
        const int2 two = __ldcg(reinterpret_cast<const int2*>(of_b + 8 * j));
        #pragma unroll
        for (int i = 0; i < 4; ++i) sum[4 * j + i] = linear::unscaled(sum[4 * j + i], (i % 2 == 0 ? two.x : two.y) - kMargin);
    }
}

// Turns the sums into results in place.
template <bool ALL, int N>
__device__ __forceinline__ void finish_unit(const Product& p, float (&sum)[N], int batch, const linear::Place& at) {
    float infinite = 0.0f;  // NaN if any sum is not finite
    #pragma unroll
    for (int i = 0; ALL && i < N; ++i) infinite = fmaf(sum[i], 0.0f, infinite);
    const bool anew = ALL && infinite != 0.0f;
    if (!anew && p.out.c == nullptr && p.y_part == kWhole) {
        #pragma unroll
        for (int i = 0; i < N; ++i) sum[i] *= p.out.alpha;
        return;
    }
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        const int row = at.row + i / 2 % 2 * 8, column = at.column + i / 4 * 8 + i % 2;
        if (row >= p.tiles.m || column >= p.tiles.n) continue;
        if (anew && !isfinite(sum[i])) sum[i] = in_float(p, batch, row, column);
        sum[i] = is_there(p.y_part, row, column) ? finished(p.out, sum[i], batch, row, column) : 0.0f;
    }
}

// Stores sums to matrix `matrix` of y [.., m, n]. `whole` is set if no column is past the end.
template <int N>
__device__ __forceinline__ void store_sums(const Product& p, const float (&sum)[N], int64_t matrix, const linear::Place& at,
                                           bool whole, float* y) {
    const int m = p.tiles.m, n = p.tiles.n;
    const bool pairs = n % 2 == 0;
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = at.row + 8 * half;
        if (row >= m) continue;
        float* to = y + (matrix * m + row) * n + at.column;
        if (pairs && whole) {
            #pragma unroll
            for (int j = 0; j < N / 4; ++j) {
                *reinterpret_cast<float2*>(to + 8 * j) = {sum[4 * j + 2 * half], sum[4 * j + 2 * half + 1]};
            }
            continue;
        }
        #pragma unroll
        for (int j = 0; j < N / 4; ++j) {
            const int column = at.column + 8 * j;
            const float2 v = {sum[4 * j + 2 * half], sum[4 * j + 2 * half + 1]};
            if (pairs && column < n) {
                *reinterpret_cast<float2*>(to + 8 * j) = v;
            } else {
                if (column < n) to[8 * j] = v.x;
                if (column + 1 < n) to[8 * j + 1] = v.y;
            }
        }
    }
}

template <bool ALL>
__device__ __forceinline__ void store_unit(const Product& p, float (&sum)[64], const Unit& unit, int group) {
    const bool is_part = p.cut.parts > 1;
    if (!joined(p.cut, sum, unit, p.partial, p.ended)) return;
    const int batch = p.batch_of(unit.tile);
    const linear::Tile tile = p.place_of(unit.tile);
    const linear::Place at = linear::place_of(tile.of_x * kTile + group * 64, tile.of_weight * kTile);
    unscale(p, sum, batch, at.column);
    if (!is_part) finish_unit<ALL>(p, sum, batch, at);
    const int64_t matrix = is_part ? static_cast<int64_t>(unit.part) * p.batch + batch : batch;
    store_sums(p, sum, matrix, at, (tile.of_weight + 1) * kTile <= p.tiles.n, is_part ? p.partial : p.out.y);
}

// Issues the products of half a stage for 64 rows of a as one group. The small products come first, while the accumulator holds
// nothing large to truncate them against. a's lo lies LO_A bytes after its hi.
template <bool ALL, int LO_A>
__device__ __forceinline__ void multiply_half(float (&partial)[64], const unsigned char* a, const unsigned char* b) {
    #pragma unroll
    for (int step = 0; step < 2; ++step) {
        const int at = step * 32;
        const uint64_t hi_a = matrix::tile_descriptor(a + at), lo_a = matrix::tile_descriptor(a + LO_A + at);
        const uint64_t hi_b = matrix::tile_descriptor(b + at), lo_b = matrix::tile_descriptor(b + kHalfBytes + at);
        if (ALL) matrix::matrix_multiply(partial, lo_a, lo_b, step > 0);
        matrix::matrix_multiply(partial, lo_a, hi_b, ALL || step > 0);
        matrix::matrix_multiply(partial, hi_a, lo_b, 1);
    }
    #pragma unroll
    for (int step = 0; step < 2; ++step) {
        matrix::matrix_multiply(partial, matrix::tile_descriptor(a + step * 32), matrix::tile_descriptor(b + step * 32), 1);
    }
    sm90::products_issued();
}

// Adds the sums of a half stage, times the factors of this thread's two rows.
template <int N>
__device__ __forceinline__ void add(float (&sum)[N], const float (&partial)[N], const float (&rows)[2]) {
    #pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = fmaf(partial[i], rows[i / 2 % 2], sum[i]);
}

template <bool ALL>
__device__ __forceinline__ void multiply_units(const Product& p, const Ring& ring, int group) {
    Turn turn = {0, 0};
    Units units(p.cut);
    const int other = 1 - group;
    if (group > 0) give_turn_to(other);
    for (Unit unit; units.next(p.cut, unit);) {
        float sum[64], first[64], second[64];
        #pragma unroll
        for (int i = 0; i < 64; ++i) sum[i] = first[i] = second[i] = 0.0f;
        const linear::Tile tile = p.place_of(unit.tile);
        for (int i = p.past_of(unit, tile) - p.first_of(unit, tile); i > 0; --i, turn.next(kStages)) {
            const unsigned char* stage = ring.stages + turn.stage * kStageBytes;
            const float* factors = reinterpret_cast<const float*>(stage + kOperandBytes) + linear::place_of(group * 64, 0).row;
            matrix::barrier_wait(ring.full + turn.stage, turn.parity);
            const float rows[2][2] = {{factors[0], factors[8]}, {factors[kTile], factors[kTile + 8]}};
            await_turn(group);
            matrix::matrix_begin();
            const unsigned char* a = stage + group * 64 * matrix::kRowBytes;
            multiply_half<ALL, kHalfBytes>(first, a, stage + kPackedBytes);
            multiply_half<ALL, kHalfBytes>(second, a + 64, stage + kPackedBytes + 64);
            give_turn_to(other);
            sm90::products_done<1>(first);
            add(sum, first, rows[0]);
            sm90::products_done<0>(second);
            __syncwarp();  // all lanes have read their factors from the stage
            matrix::barrier_arrive(ring.free + turn.stage);
            add(sum, second, rows[1]);
        }
        store_unit<ALL>(p, sum, unit, group);
    }
    if (group == 0) await_turn(group);  // matches the last turn given to this warpgroup
}

// Computes the units of a persistent block, one block per SM.
template <bool ALL>
__global__ void __launch_bounds__(kThreads, 1) matmul_fp32x3(const __grid_constant__ Product p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // this kernel is never called on other architectures
    extern __shared__ unsigned char shared[];
    const Ring ring = ring_in(shared, kStages, kStageBytes);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
            matrix::barrier_init(ring.full + stage);
            matrix::barrier_init(ring.free + stage, kConsumers * 128);
        }
        matrix::barriers_made();
    }
    __syncthreads();
    await_earlier();
    let_next_begin();  // the next kernel waits for the end of this kernel, and has no room before
    const int group = threadIdx.x / 128;
    if (group == kConsumers) {
        sm90::give_registers<kLoaderRegisters>();
        if (threadIdx.x % 128 == 0) load_units(p, ring);
    } else {
        sm90::take_registers<kConsumerRegisters>();
        multiply_units<ALL>(p, ring, group);
    }
#endif
}

constexpr int kJoinThreads = 256;
constexpr int kJoined = 4;  // elements that a thread adds up

// Adds up the split-K parts in order.
__global__ void __launch_bounds__(kJoinThreads) matmul_join(const __grid_constant__ Product p) {
    await_earlier();
    const int64_t m = p.tiles.m, n = p.tiles.n, count = p.batch * m * n;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kJoinThreads * kJoined + threadIdx.x;
    float sum[kJoined] = {};
    #pragma unroll 4
    for (int part = 0; part < p.cut.parts; ++part) {
        #pragma unroll
        for (int i = 0; i < kJoined; ++i) {
            const int64_t at = first + i * kJoinThreads;
            const float v = at < count ? p.partial[part * count + at] : 0.0f;
            sum[i] = part == 0 ? v : sum[i] + v;
        }
    }
    #pragma unroll
    for (int i = 0; i < kJoined; ++i) {
        const int64_t at = first + i * kJoinThreads;
        if (at >= count) continue;
        if (p.all && !isfinite(sum[i])) sum[i] = in_float(p, at / (m * n), at / n % m, at % n);
        p.out.y[at] = p.out.c == nullptr ? p.out.alpha * sum[i] : finished(p.out, sum[i], at / (m * n), at / n % m, at % n);
    }
}

}  // namespace kernelwright::matmul
