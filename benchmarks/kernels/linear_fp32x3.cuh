// y = x * weight^T + bias in float's accuracy from three fp16 products, on sm_90a.
//
// A row is scaled by a power of two so that its largest value lies in [2^13, 2^14), and split: hi = fp16(v),
// lo = fp16(v - hi). hi * hi + hi * lo + lo * hi leaves out lo * lo, 2^-24 of the product. What is small beside its row's
// largest value loses digits only where fp16 has no more (2^-24 absolute, 2^-38 of the largest), so nothing has to be
// scaled again, and all three products go to one accumulator. (Ootomo and Yokota, 2022, scale the residual by 2^11
// instead and need a second accumulator.)
//
// The tensor cores cut off what they add to their accumulator, which costs 8e-5 over K = 8192. So every
// PROMOTE * 64 of K the partial sums are added to others in ordinary float arithmetic, which rounds.
//
// Operands are written by `split_rows` as the products want them: [tile of 128 rows][64 of K][hi, lo] of 16 KB each,
// swizzled. One bulk copy of 32 KB then brings a tile, and no tensor map is needed.
//
// A row that holds an infinity or NaN gives NaN in the whole row of y. Sizes: m, n multiples of 128, k of 64 * PROMOTE.
//
//   [1024, 8192] * [8192, 8192]: 412 GFLOP of fp16, 0.42 ms at 989 TFLOP/s. Of L2: 512 tiles * 8.4 MB = 4.3 GB, 0.8 ms at 5.5 TB/s, is the
//   larger bound; two blocks that share a tile of the weight (multicast) would make it 3.2 GB.
#pragma once

#include <cuda_fp16.h>

#include "matrix_sm90.cuh"

namespace kernelwright::linear {

using namespace kernelwright::matrix;

constexpr int kTile = 128;                            // rows of x, and of the weight, of a block's tile
constexpr int kDepth = 64;                            // of K in one stage
constexpr int kHalfBytes = kTile * kRowBytes;         // hi or lo of one operand
constexpr int kOperandBytes = 2 * kHalfBytes;
constexpr int kStageBytes = 2 * kOperandBytes;
constexpr int kStages = 3;
constexpr int kConsumers = 2;                         // warpgroups of 64 rows; another one loads
constexpr int kThreads = 128 * (kConsumers + 1);
constexpr int kSharedBytes = kStages * kStageBytes + 1024 + 2 * kStages * 8;
constexpr int kSplitThreads = 256;
constexpr int kSplitValues = 8;                       // of a thread at a time: 16 bytes of hi, 16 of lo

inline int64_t packed_bytes(int64_t rows, int64_t k) { return rows * k * 4; }

__device__ __forceinline__ float block_largest(float mine) {
    __shared__ float of_warp[kSplitThreads / 32];
    for (int offset = 16; offset > 0; offset /= 2) mine = fmaxf(mine, __shfl_xor_sync(0xffffffffu, mine, offset));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
    __syncthreads();
    for (int warp = 0; warp < kSplitThreads / 32; ++warp) mine = fmaxf(mine, of_warp[warp]);
    return mine;
}

struct alignas(16) Halves {
    __half v[kSplitValues];
};

// A block per row of values [rows, k]; unscale[row] takes the scaling back.
__global__ void __launch_bounds__(kSplitThreads) split_rows(const float* values, int k, unsigned char* packed,
                                                            float* unscale) {
    const int row = blockIdx.x;
    const float* from = values + static_cast<int64_t>(row) * k;
    float largest = 0.0f;
    bool finite = true;
    for (int i = threadIdx.x * 4; i < k; i += kSplitThreads * 4) {
        const float4 v = *reinterpret_cast<const float4*>(from + i);
        const float most = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
        largest = fmaxf(largest, most);
        finite = finite && isfinite(v.x) && isfinite(v.y) && isfinite(v.z) && isfinite(v.w);
    }
    largest = block_largest(largest);
    finite = __syncthreads_and(finite);
    int exponent = 0;  // so that scale and its inverse are normal numbers
    if (largest > 0.0f && finite) exponent = min(max(13 - ilogbf(largest), -112), 112);
    const float scale = ldexpf(1.0f, exponent);
    if (threadIdx.x == 0) unscale[row] = finite ? ldexpf(1.0f, -exponent) : NAN;

    const int64_t tile = static_cast<int64_t>(row / kTile) * (k / kDepth) * kOperandBytes;
    for (int i = threadIdx.x * kSplitValues; i < k; i += kSplitThreads * kSplitValues) {
        Halves hi;
        Halves lo;
        #pragma unroll
        for (int j = 0; j < kSplitValues; ++j) {
            const float v = finite ? from[i + j] * scale : 0.0f;
            hi.v[j] = __float2half_rn(v);
            lo.v[j] = __float2half_rn(v - __half2float(hi.v[j]));
        }
        const int64_t at = tile + static_cast<int64_t>(i / kDepth) * kOperandBytes +
                           swizzled(row % kTile, i % kDepth / kSplitValues);
        *reinterpret_cast<Halves*>(packed + at) = hi;
        *reinterpret_cast<Halves*>(packed + at + kHalfBytes) = lo;
    }
}

struct Product {
    const unsigned char* x;       // packed, [m, k]
    const unsigned char* weight;  // packed, [n, k]
    const float* x_unscale;
    const float* weight_unscale;
    const float* bias;            // [n], or null
    int m, n, k;
};

struct Ring {
    unsigned char* stages;  // a multiple of 1024 bytes
    uint64_t* full;
    uint64_t* free;
};

// One thread keeps the ring filled.
__device__ __forceinline__ void load_tiles(const Product& p, const Ring& ring) {
    const int depth = p.k / kDepth;
    const int m_tiles = p.m / kTile;
    const uint64_t policy = evict_last();
    int stage = 0;
    uint32_t parity = 1;  // the first round finds every stage free
    for (int tile = blockIdx.x; tile < m_tiles * (p.n / kTile); tile += gridDim.x) {
        const unsigned char* x = p.x + static_cast<int64_t>(tile % m_tiles) * depth * kOperandBytes;
        const unsigned char* weight = p.weight + static_cast<int64_t>(tile / m_tiles) * depth * kOperandBytes;
        for (int i = 0; i < depth; ++i) {
            unsigned char* to = ring.stages + stage * kStageBytes;
            barrier_wait(ring.free + stage, parity);
            barrier_expect(ring.full + stage, kStageBytes);
            bulk_load(to, x + static_cast<int64_t>(i) * kOperandBytes, kOperandBytes, ring.full + stage, policy);
            bulk_load(to + kOperandBytes, weight + static_cast<int64_t>(i) * kOperandBytes, kOperandBytes,
                      ring.full + stage, policy);
            if (++stage == kStages) {
                stage = 0;
                parity ^= 1;
            }
        }
    }
}

// The three products of a stage for 64 rows of x, issued.
__device__ __forceinline__ void multiply_stage(float (&partial)[64], const unsigned char* stage, int group, bool fresh) {
    const unsigned char* x = stage + group * 64 * kRowBytes;
    const unsigned char* weight = stage + kOperandBytes;
    #pragma unroll
    for (int step = 0; step < kDepth / 16; ++step) {
        const uint64_t x_hi = tile_descriptor(x + step * 32);
        const uint64_t x_lo = tile_descriptor(x + kHalfBytes + step * 32);
        const uint64_t weight_hi = tile_descriptor(weight + step * 32);
        const uint64_t weight_lo = tile_descriptor(weight + kHalfBytes + step * 32);
        matrix_multiply(partial, x_lo, weight_hi, !(fresh && step == 0));
        matrix_multiply(partial, x_hi, weight_lo, 1);
        matrix_multiply(partial, x_hi, weight_hi, 1);
    }
}

// Where in the tile a thread's sums belong: sum[4 * j + 2 * half + i] to row `row` + 8 * half, column `column` + 8 * j + i.
struct Place {
    int row;
    int column;
};

__device__ __forceinline__ Place place_of(int first_row, int first_column) {
    const int thread = threadIdx.x % 128;
    return {first_row + thread / 32 * 16 + thread % 32 / 4, first_column + thread % 4 * 2};
}

// The two columns of `j`: what takes the scaling back, and the bias.
struct Columns {
    float2 unscale;
    float2 bias;
};

__device__ __forceinline__ Columns columns_at(const Product& p, int column) {
    Columns c = {*reinterpret_cast<const float2*>(p.weight_unscale + column), {0.0f, 0.0f}};
    if (p.bias != nullptr) c.bias = *reinterpret_cast<const float2*>(p.bias + column);
    return c;
}

// What becomes of a finished tile: y is stored.
struct StoreTile {
    float* y;  // [m, n]

    __device__ __forceinline__ void operator()(const Product& p, float (&sum)[64], const Place& at, int) const {
        #pragma unroll
        for (int j = 0; j < 16; ++j) {
            const Columns c = columns_at(p, at.column + 8 * j);
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = at.row + 8 * half;
                const float of_row = p.x_unscale[row];
                const float2 values = {fmaf(sum[4 * j + 2 * half], of_row * c.unscale.x, c.bias.x),
                                       fmaf(sum[4 * j + 2 * half + 1], of_row * c.unscale.y, c.bias.y)};
                *reinterpret_cast<float2*>(y + static_cast<int64_t>(row) * p.n + at.column + 8 * j) = values;
            }
        }
    }
};

template <int PROMOTE, class Finish>
__device__ __forceinline__ void multiply_tiles(const Product& p, const Ring& ring, int group, const Finish& finish) {
    const int depth = p.k / kDepth;
    const int m_tiles = p.m / kTile;
    int stage = 0;
    uint32_t parity = 0;
    for (int tile = blockIdx.x; tile < m_tiles * (p.n / kTile); tile += gridDim.x) {
        float sum[64];
        float partial[64];
        #pragma unroll
        for (int i = 0; i < 64; ++i) sum[i] = partial[i] = 0.0f;
        for (int i = 0; i < depth; i += PROMOTE) {
            #pragma unroll
            for (int part = 0; part < PROMOTE; ++part) {
                barrier_wait(ring.full + stage, parity);
                matrix_begin();
                multiply_stage(partial, ring.stages + stage * kStageBytes, group, part == 0);
                matrix_wait(partial);
                if (threadIdx.x % 32 == 0) barrier_arrive(ring.free + stage);
                if (++stage == kStages) {
                    stage = 0;
                    parity ^= 1;
                }
            }
            #pragma unroll
            for (int j = 0; j < 64; ++j) sum[j] += partial[j];
        }
        const Place at = place_of(tile % m_tiles * kTile + group * 64, tile / m_tiles * kTile);
        finish(p, sum, at, tile / m_tiles);
    }
}

// One block on an SM, which takes tiles in turn; neighbours share tiles of the weight.
template <int PROMOTE, class Finish>
__global__ void __launch_bounds__(kThreads, 1)
    linear_fp32x3(const __grid_constant__ Product p, const __grid_constant__ Finish finish) {
    extern __shared__ unsigned char shared[];
    const uint32_t past = shared_address(shared) % kAtomBytes;
    Ring ring;
    ring.stages = shared + (past == 0 ? 0 : kAtomBytes - past);
    ring.full = reinterpret_cast<uint64_t*>(ring.stages + kStages * kStageBytes);
    ring.free = ring.full + kStages;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
            barrier_init(ring.full + stage);
            barrier_init(ring.free + stage, kConsumers * 4);
        }
        barriers_made();
    }
    __syncthreads();
    const int group = threadIdx.x / 128;
    if (group == kConsumers) {
        if (threadIdx.x % 128 == 0) load_tiles(p, ring);
    } else {
        multiply_tiles<PROMOTE>(p, ring, group, finish);
    }
}

}  // namespace kernelwright::linear
