// y = alpha * a * b + beta * c over split operands, on sm_90a: linear_fp32x3/csrc/product_sm90.cuh for many matrices, with
// the depth cut into parts where there are fewer tiles than SMs.
//
// The sums of each 32 of depth are taken out of the tensor cores and added up in float arithmetic: twice as often as there,
// since what the tensor cores cut off goes one way where all values have one sign. With ALL, lo * lo is not left out; an
// infinity, which is in lo, then meets lo's of either sign, and what is not finite is computed anew in float arithmetic.
//
// Parts are stored one behind the other and added up in their order by a kernel of its own, so that a sum is the same
// in every run.
#pragma once

#include "../../linear_fp32x3/csrc/product_sm90.cuh"
#include "split_sm90.cuh"

namespace kernelwright::matmul {

using linear::kConsumers;
using linear::kStageBytes;
using linear::kStages;
using linear::kThreads;

constexpr int64_t kMostParts = 64;

struct Product {
    linear::Product tiles;  // of one matrix; its bias is not used
    int64_t a_bytes, b_bytes;  // from one matrix to the next; 0 where all share one
    int64_t a_rows, b_rows;
    int batch;
    int parts;
    Outcome out;
    float* partial;  // [parts, batch, m, n], where there is more than one
    Operands plain;  // what was split
    bool all;        // with lo * lo

    __host__ __device__ int units() const { return batch * parts * tiles.tiles(); }
    // Stages [begin_of(part), begin_of(part + 1)) belong to a part.
    __host__ __device__ int begin_of(int part) const {
        return static_cast<int>(static_cast<int64_t>(tiles.stages) * part / parts);
    }
};

struct Unit {
    linear::Tile tile;
    int part;
    int batch;
};

__device__ __forceinline__ Unit unit_at(const Product& p, int number) {
    const int matrix = number / p.tiles.tiles();
    return {linear::tile_at(p.tiles, number % p.tiles.tiles()), matrix % p.parts, matrix / p.parts};
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
    for (int number = blockIdx.x; number < p.units(); number += gridDim.x) {
        const Unit unit = unit_at(p, number);
        const unsigned char* a = p.tiles.x.tiles + unit.batch * p.a_bytes + unit.tile.of_x * tile_bytes;
        const unsigned char* b = p.tiles.weight.tiles + unit.batch * p.b_bytes + unit.tile.of_weight * tile_bytes;
        for (int i = p.begin_of(unit.part); i < p.begin_of(unit.part + 1); ++i, turn.next(kStages)) {
            unsigned char* to = ring.stages + turn.stage * kStageBytes;
            const int64_t from = static_cast<int64_t>(i) * kOperandBytes;
            matrix::barrier_wait(ring.free + turn.stage, turn.parity);
            matrix::barrier_expect(ring.full + turn.stage, kStageBytes);
            matrix::bulk_load(to, a + from, kOperandBytes, ring.full + turn.stage, policy);
            matrix::bulk_load(to + kOperandBytes, b + from, kOperandBytes, ring.full + turn.stage, policy);
        }
    }
}

// sum * 2^-exponent, rounded once.
__device__ __forceinline__ float unscaled(float sum, int exponent) {
    if (exponent > -127 && exponent < 127) return sum * __int_as_float((127 - exponent) << 23);
    return ldexpf(sum, -exponent);
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

template <bool ALL>
__device__ __forceinline__ void store_unit(const Product& p, float (&sum)[64], const Unit& unit, const linear::Place& at) {
    const int m = p.tiles.m, n = p.tiles.n;
    const bool pairs = n % 2 == 0;
    const bool is_part = p.parts > 1;
    const int* of_a = p.tiles.x.exponents + unit.batch * p.a_rows;
    const int* of_b = p.tiles.weight.exponents + unit.batch * p.b_rows;
    const int64_t matrix = is_part ? static_cast<int64_t>(unit.part) * p.batch + unit.batch : unit.batch;
    float* y = (is_part ? p.partial : p.out.y) + matrix * m * n;
    // All of them before anything is stored: a load would wait for each store otherwise.
    int2 exponents[16];
    #pragma unroll
    for (int j = 0; j < 16; ++j) exponents[j] = __ldg(reinterpret_cast<const int2*>(of_b + at.column + 8 * j));
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = at.row + 8 * half;
        if (row >= m) continue;
        const int row_exponent = __ldg(of_a + row);
        float* to = y + static_cast<int64_t>(row) * n;
        #pragma unroll
        for (int j = 0; j < 16; ++j) {
            const int column = at.column + 8 * j;
            float2 v = {unscaled(sum[4 * j + 2 * half], row_exponent + exponents[j].x),
                        unscaled(sum[4 * j + 2 * half + 1], row_exponent + exponents[j].y)};
            if (ALL && !is_part && column < n && !isfinite(v.x)) v.x = in_float(p, unit.batch, row, column);
            if (ALL && !is_part && column + 1 < n && !isfinite(v.y)) v.y = in_float(p, unit.batch, row, column + 1);
            if (!is_part && column < n) v.x = finished(p.out, v.x, unit.batch, row, column);
            if (!is_part && column + 1 < n) v.y = finished(p.out, v.y, unit.batch, row, column + 1);
            if (pairs && column < n) {
                *reinterpret_cast<float2*>(to + column) = v;
            } else {
                if (column < n) to[column] = v.x;
                if (column + 1 < n) to[column + 1] = v.y;
            }
        }
    }
}

// The products of half a stage for 64 rows of a, issued: the small ones first, while there is nothing large to
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
}

template <bool ALL>
__device__ __forceinline__ void multiply_units(const Product& p, const linear::Ring& ring, int group) {
    Turn turn = {0, 0};
    for (int number = blockIdx.x; number < p.units(); number += gridDim.x) {
        const Unit unit = unit_at(p, number);
        float sum[64], partial[64];
        #pragma unroll
        for (int i = 0; i < 64; ++i) sum[i] = partial[i] = 0.0f;
        for (int i = p.begin_of(unit.part); i < p.begin_of(unit.part + 1); ++i, turn.next(kStages)) {
            matrix::barrier_wait(ring.full + turn.stage, turn.parity);
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                matrix::matrix_begin();
                multiply_half<ALL>(partial, ring.stages + turn.stage * kStageBytes, group, half);
                matrix::matrix_wait(partial);
                if (half == 1 && threadIdx.x % 32 == 0) matrix::barrier_arrive(ring.free + turn.stage);
                #pragma unroll
                for (int j = 0; j < 64; ++j) sum[j] += partial[j];
            }
        }
        store_unit<ALL>(p, sum, unit, linear::place_of(unit.tile.of_x * kTile + group * 64, unit.tile.of_weight * kTile));
    }
}

// One block on an SM, which takes units in turn.
template <bool ALL>
__global__ void __launch_bounds__(kThreads, 1) matmul_fp32x3(const __grid_constant__ Product p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // elsewhere nobody calls it
    extern __shared__ unsigned char shared[];
    const uint32_t past = matrix::shared_address(shared) % matrix::kAtomBytes;
    linear::Ring ring;
    ring.stages = shared + (past == 0 ? 0 : matrix::kAtomBytes - past);
    ring.full = reinterpret_cast<uint64_t*>(ring.stages + kStages * kStageBytes);
    ring.free = ring.full + kStages;
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
        if (threadIdx.x % 128 == 0) load_units(p, ring);
    } else {
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
