// y = alpha * a * b + beta * c over split operands, on sm_90a: linear_fp32x3/csrc/product_sm90.cuh for many matrices, with
// the depth cut into parts where there are fewer tiles than SMs.
//
// The sums of each 32 of depth are taken out of the tensor cores and added up in float arithmetic: twice as often as there,
// since what the tensor cores cut off goes one way where all values have one sign. Two sets of sums take turns, so that
// the tensor cores multiply into one while the other is added. With ALL, lo * lo is not left out; an infinity, which is
// in lo, then meets lo's of either sign, and what is not finite is computed anew in float arithmetic.
//
// Parts are added up in their order, so that a sum is the same in every run: a few by whichever block is the last to finish
// one, many by a kernel of its own.
#pragma once

#include "../../csrc/warpgroups_sm90.cuh"
#include "../../linear_fp32x3/csrc/product_sm90.cuh"
#include "split_sm90.cuh"

namespace kernelwright::matmul {

using linear::kConsumers;
using linear::kStageBytes;
using linear::kStages;
using linear::kThreads;

constexpr int64_t kMostParts = 64;
constexpr int64_t kFewParts = 4;
constexpr int kWarps = 4 * kConsumers;  // that hold a tile's sums
constexpr int kConsumerRegisters = 240;
constexpr int kLoaderRegisters = 24;

struct Product {
    linear::Product tiles;  // of one matrix; its bias is not used
    int64_t a_bytes, b_bytes;  // from one matrix to the next; 0 where all share one
    int64_t a_rows, b_rows;
    int batch;
    int parts;
    Outcome out;
    float* partial;  // [parts, batch, m, n] where there are many, [parts, batch, tiles, warps, 16, 32, 4] where there are few
    int* ended;      // [batch, tiles, warps]: how many parts
    Operands plain;  // what was split
    bool all;        // with lo * lo

    __host__ __device__ bool has_few() const { return parts > 1 && parts <= kFewParts; }
    __host__ __device__ int units() const { return batch * parts * tiles.tiles(); }
    // Stages [begin_of(part), begin_of(part + 1)) belong to a part.
    __host__ __device__ int begin_of(int part) const {
        return static_cast<int>(static_cast<int64_t>(tiles.stages) * part / parts);
    }
};

struct Unit {
    linear::Tile tile;
    int number;  // of the tile, in its matrix
    int part;
    int batch;
};

__device__ __forceinline__ Unit unit_at(const Product& p, int number) {
    const int matrix = number / p.tiles.tiles();
    const int tile = number % p.tiles.tiles();
    return {linear::tile_at(p.tiles, tile), tile, matrix % p.parts, matrix / p.parts};
}

// A place in the ring, and which time it is passed.
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

// One thread keeps the ring filled.
__device__ __forceinline__ void load_units(const Product& p, const linear::Ring& ring) {
    const int64_t tile_bytes = static_cast<int64_t>(p.tiles.stages) * kOperandBytes;
    const uint64_t policy = matrix::evict_last();
    Turn turn = {0, 1};  // the first round finds every stage free
    int taken = 0;
    for (int number = blockIdx.x; number < p.units(); number += gridDim.x, ++taken) {
        const Unit unit = unit_at(p, number);
        const unsigned char* a = p.tiles.x.tiles + unit.batch * p.a_bytes + unit.tile.of_x * tile_bytes;
        const unsigned char* b = p.tiles.weight.tiles + unit.batch * p.b_bytes + unit.tile.of_weight * tile_bytes;
        const int begin = p.begin_of(unit.part);
        for (int i = begin; i < p.begin_of(unit.part + 1); ++i, turn.next(kStages)) {
            unsigned char* to = ring.stages + turn.stage * kStageBytes;
            const int64_t from = static_cast<int64_t>(i) * kOperandBytes;
            matrix::barrier_wait(ring.free + turn.stage, turn.parity);
            matrix::barrier_expect(ring.full + turn.stage, kStageBytes + (i == begin ? 2 * linear::kExponentBytes : 0));
            if (i == begin) {
                linear::load_exponents(ring, taken, p.tiles.x.exponents + unit.batch * p.a_rows + unit.tile.of_x * kTile,
                                       p.tiles.weight.exponents + unit.batch * p.b_rows + unit.tile.of_weight * kTile,
                                       ring.full + turn.stage);
            }
            matrix::bulk_load(to, a + from, kOperandBytes, ring.full + turn.stage, policy);
            matrix::bulk_load(to + kOperandBytes, b + from, kOperandBytes, ring.full + turn.stage, policy);
        }
    }
}

// One element in float arithmetic.
__device__ __noinline__ float in_float(const Product& p, int64_t batch, int64_t row, int64_t column) {
    const Operand &of_a = p.plain.a, &of_b = p.plain.b;
    const float* a = of_a.values + batch * of_a.batch_step + row * of_a.row_step;
    const float* b = of_b.values + batch * of_b.batch_step + column * of_b.row_step;
    float sum = 0.0f;
    #pragma unroll 4
    for (int64_t i = 0; i < of_a.depth; ++i) sum = fmaf(__ldg(a + i * of_a.depth_step), __ldg(b + i * of_b.depth_step), sum);
    return sum;
}

// In place and without a branch between them.
__device__ __forceinline__ void unscale(float (&sum)[64], const linear::Exponents& exponents) {
    const int rows[2] = {exponents.rows[0], exponents.rows[8]};
    #pragma unroll
    for (int j = 0; j < 16; ++j) {
        const int2 of_b = *reinterpret_cast<const int2*>(exponents.columns + 8 * j);
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            float* pair = sum + 4 * j + 2 * half;
            pair[0] = linear::unscaled(pair[0], rows[half] + of_b.x);
            pair[1] = linear::unscaled(pair[1], rows[half] + of_b.y);
        }
    }
}

// Stores a warp's sums of one of few parts. Whether it is the last to end: then the sums are those of all parts.
__device__ __forceinline__ bool joined(const Product& p, float (&sum)[64], const Unit& unit) {
    const int lane = threadIdx.x % 32;
    const int64_t tiles = static_cast<int64_t>(p.batch) * p.tiles.tiles();
    const int64_t mine = (static_cast<int64_t>(unit.batch) * p.tiles.tiles() + unit.number) * kWarps + threadIdx.x / 32;
    float4* of_warp = reinterpret_cast<float4*>(p.partial) + mine * 16 * 32 + lane;
    const int64_t part_step = tiles * kWarps * 16 * 32;
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        const float4 four = {sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]};
        __stcg(of_warp + unit.part * part_step + i * 32, four);
    }
    __threadfence();
    __syncwarp();
    int before = lane == 0 ? atomicAdd(p.ended + mine, 1) : 0;
    before = __shfl_sync(0xffffffffu, before, 0);
    if (before + 1 < p.parts) return false;
    __threadfence();
    float own[64];
    #pragma unroll
    for (int i = 0; i < 64; ++i) own[i] = sum[i];
    for (int part = 0; part < p.parts; ++part) {
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            float4 four = {own[4 * i], own[4 * i + 1], own[4 * i + 2], own[4 * i + 3]};
            if (part != unit.part) four = __ldcg(of_warp + part * part_step + i * 32);
            sum[4 * i] = part == 0 ? four.x : sum[4 * i] + four.x;
            sum[4 * i + 1] = part == 0 ? four.y : sum[4 * i + 1] + four.y;
            sum[4 * i + 2] = part == 0 ? four.z : sum[4 * i + 2] + four.z;
            sum[4 * i + 3] = part == 0 ? four.w : sum[4 * i + 3] + four.w;
        }
    }
    return true;
}

// Makes of the sums what is stored, in place.
template <bool ALL>
__device__ __forceinline__ void finish_unit(const Product& p, float (&sum)[64], const Unit& unit, const linear::Place& at) {
    float infinite = 0.0f;  // or NaN, where a sum is not finite
    #pragma unroll
    for (int i = 0; ALL && i < 64; ++i) infinite = fmaf(sum[i], 0.0f, infinite);
    const bool anew = ALL && infinite != 0.0f;
    if (!anew && p.out.c == nullptr) {
        #pragma unroll
        for (int i = 0; i < 64; ++i) sum[i] *= p.out.alpha;
        return;
    }
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
        const int row = at.row + i / 2 % 2 * 8, column = at.column + i / 4 * 8 + i % 2;
        if (row >= p.tiles.m || column >= p.tiles.n) continue;
        if (anew && !isfinite(sum[i])) sum[i] = in_float(p, unit.batch, row, column);
        sum[i] = finished(p.out, sum[i], unit.batch, row, column);
    }
}

template <bool ALL>
__device__ __forceinline__ void store_unit(const Product& p, float (&sum)[64], const Unit& unit, const linear::Place& at,
                                           const linear::Exponents& exponents) {
    unscale(sum, exponents);
    if (p.has_few() && !joined(p, sum, unit)) return;
    const bool is_part = p.parts > kFewParts;
    if (!is_part) finish_unit<ALL>(p, sum, unit, at);
    const int m = p.tiles.m, n = p.tiles.n;
    const bool pairs = n % 2 == 0;
    const bool whole = pairs && (unit.tile.of_weight + 1) * kTile <= n;
    const int64_t matrix = is_part ? static_cast<int64_t>(unit.part) * p.batch + unit.batch : unit.batch;
    float* y = (is_part ? p.partial : p.out.y) + matrix * m * n;
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = at.row + 8 * half;
        if (row >= m) continue;
        float* to = y + static_cast<int64_t>(row) * n + at.column;
        if (whole) {
            #pragma unroll
            for (int j = 0; j < 16; ++j) {
                *reinterpret_cast<float2*>(to + 8 * j) = {sum[4 * j + 2 * half], sum[4 * j + 2 * half + 1]};
            }
            continue;
        }
        #pragma unroll
        for (int j = 0; j < 16; ++j) {
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

// The products of half a stage for 64 rows of a, issued as one group: the small ones first, while there is nothing large to
// cut them off against.
template <bool ALL>
__device__ __forceinline__ void multiply_half(float (&partial)[64], const unsigned char* stage, int group, int half) {
    const unsigned char* a = stage + group * 64 * matrix::kRowBytes + half * 64;
    const unsigned char* b = stage + kOperandBytes + half * 64;
    #pragma unroll
    for (int step = 0; step < 2; ++step) {
        const int at = step * 32;
        const uint64_t hi_a = matrix::tile_descriptor(a + at), lo_a = matrix::tile_descriptor(a + kHalfBytes + at);
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

__device__ __forceinline__ void add(float (&sum)[64], const float (&partial)[64]) {
    #pragma unroll
    for (int i = 0; i < 64; ++i) sum[i] += partial[i];
}

template <bool ALL>
__device__ __forceinline__ void multiply_units(const Product& p, const linear::Ring& ring, int group) {
    Turn turn = {0, 0};
    int taken = 0;
    for (int number = blockIdx.x; number < p.units(); number += gridDim.x, ++taken) {
        const Unit unit = unit_at(p, number);
        float sum[64], first[64], second[64];
        #pragma unroll
        for (int i = 0; i < 64; ++i) sum[i] = first[i] = second[i] = 0.0f;
        const int stages = p.begin_of(unit.part + 1) - p.begin_of(unit.part);
        for (int i = 0; i < stages; ++i, turn.next(kStages)) {
            const unsigned char* stage = ring.stages + turn.stage * kStageBytes;
            matrix::barrier_wait(ring.full + turn.stage, turn.parity);
            matrix::matrix_begin();
            multiply_half<ALL>(first, stage, group, 0);
            multiply_half<ALL>(second, stage, group, 1);
            sm90::products_done<1>(first);
            add(sum, first);
            sm90::products_done<0>(second);
            if (threadIdx.x % 32 == 0) matrix::barrier_arrive(ring.free + turn.stage);
            add(sum, second);
        }
        const linear::Place at = linear::place_of(unit.tile.of_x * kTile + group * 64, unit.tile.of_weight * kTile);
        store_unit<ALL>(p, sum, unit, at, linear::exponents_at(ring.exponents_of(taken), linear::place_of(group * 64, 0)));
    }
}

// One block on an SM, which takes units in turn.
template <bool ALL>
__global__ void __launch_bounds__(kThreads, 1) matmul_fp32x3(const __grid_constant__ Product p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // elsewhere nobody calls it
    extern __shared__ unsigned char shared[];
    const linear::Ring ring = linear::ring_in(shared);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
            matrix::barrier_init(ring.full + stage);
            matrix::barrier_init(ring.free + stage, kConsumers * 4);
        }
        matrix::barriers_made();
    }
    __syncthreads();
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
constexpr int kJoined = 4;  // elements of a thread

// Adds the parts up, in their order.
__global__ void __launch_bounds__(kJoinThreads) matmul_join(const __grid_constant__ Product p) {
    const int64_t m = p.tiles.m, n = p.tiles.n, count = p.batch * m * n;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kJoinThreads * kJoined + threadIdx.x;
    float sum[kJoined] = {};
    #pragma unroll 4
    for (int part = 0; part < p.parts; ++part) {
        #pragma unroll
        for (int i = 0; i < kJoined; ++i) {
            const int64_t at = first + i * kJoinThreads;
            const float v = at < count ? __ldg(p.partial + part * count + at) : 0.0f;
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
