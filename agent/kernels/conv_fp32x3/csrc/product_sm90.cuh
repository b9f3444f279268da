// A convolution in float's accuracy from three fp16 products, on sm_90a: 128 pixels by FEATURES features at a time.
//
// Two warpgroups gather the pixels' windows from x, split them (matmul_fp32x3/csrc/split_sm90.cuh) and store them to
// shared memory as the tensor cores read them; nothing of the unfolded input reaches memory. Two others multiply, 64
// pixels each. The weight is split beforehand, as matmul_fp32x3's b, and comes by bulk copies. The sums and their
// accuracy are those of matmul_fp32x3/csrc/product_sm90.cuh. Where the depth is small, lo * lo is not left out, and
// what is not finite is computed anew.
#pragma once

#include <algorithm>

#include "../../matmul_fp32x3/csrc/product_sm90.cuh"
#include "../../csrc/warpgroups_sm90.cuh"
#include "sizes.cuh"

namespace kernelwright::conv {

using linear::kDepth;
using linear::kHalfBytes;
using linear::kOperandBytes;
using linear::kTile;

constexpr int kConsumers = 2;
constexpr int kGatherers = 256;  // threads
constexpr int kThreads = 128 * kConsumers + kGatherers;
constexpr int kOfThread = kTile * kDepth / kGatherers;  // values of a stage that a thread gathers
constexpr int kConsumerRegisters = 168;
constexpr int kGathererRegisters = 88;

template <int FEATURES>
struct Layout {
    static constexpr int kWeightBytes = FEATURES * matrix::kRowBytes;  // hi or lo
    static constexpr int kFactorsAt = kOperandBytes + 2 * kWeightBytes;  // the weight's, [2][FEATURES], then x's
    static constexpr int kWeightFactorBytes = 2 * FEATURES * static_cast<int>(sizeof(float));
    static constexpr int kStageBytes =  // a multiple of 1024
        (kFactorsAt + kWeightFactorBytes + matmul::kFactorBytes + matrix::kAtomBytes - 1) / matrix::kAtomBytes * matrix::kAtomBytes;
    static constexpr int kStages = FEATURES == 128 ? 3 : 4;
    static constexpr int kSharedBytes = kStages * kStageBytes + matrix::kAtomBytes + 2 * kStages * 8;
};

struct Conv {
    Shape shape;
    const float* x;
    const float* plain;           // the weight, groups matrices of [features, depth]
    const unsigned char* weight;  // packed
    const float* bias;
    float* y;
    const Tap* taps;              // a multiple of kDepth
    int stages;
    bool all;                     // with lo * lo

    __host__ __device__ int m_tiles() const { return (shape.pixels() + kTile - 1) / kTile; }
    __host__ __device__ int of_group() const { return (shape.features + kTile - 1) / kTile; }  // packed tiles
};

// Tiles of features of the same pixels follow each other, so that these are in the caches.
struct Unit {
    int pixels, features, group;
};

template <int FEATURES>
__host__ __device__ inline int units_of(const Conv& p) {
    return p.m_tiles() * ((p.shape.features + FEATURES - 1) / FEATURES) * p.shape.groups;
}

template <int FEATURES>
__device__ __forceinline__ Unit unit_at(const Conv& p, int number) {
    const int n_tiles = (p.shape.features + FEATURES - 1) / FEATURES;
    const int rest = number / n_tiles;
    return {rest / p.shape.groups, number % n_tiles, rest % p.shape.groups};
}

// Eight of a row's values, split as matmul_fp32x3's a; all at once where every one is finite. `nudges` take turns so that
// no period of two keeps to one.
__device__ __forceinline__ void split_eight(const float* v, float scale, const float (&nudges)[2], linear::Halves& hi,
                                            linear::Halves& lo) {
    constexpr unsigned kTurns = 0x96;  // a bit for each, as many of the one as of the other in every two
    __half2 seen = __float2half2_rn(0.0f);
    #pragma unroll
    for (int i = 0; i < 8; i += 2) {
        const float2 scaled = {v[i] * scale, v[i + 1] * scale};
        const __half2 high = __floats2half2_rn(scaled.x, scaled.y);
        const float2 back = __half22float2(high);
        const float first = nudges[kTurns >> i & 1], second = nudges[kTurns >> (i + 1) & 1];
        const __half2 low = __floats2half2_rn((scaled.x - back.x) * first, (scaled.y - back.y) * second);
        seen = __hadd2(seen, low);
        hi.v[i] = __low2half(high), hi.v[i + 1] = __high2half(high);
        lo.v[i] = __low2half(low), lo.v[i + 1] = __high2half(low);
    }
    const float2 sums = __half22float2(seen);
    if (sums.x == sums.x && sums.y == sums.y) return;  // an infinity less itself is no number
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (!isfinite(v[i])) hi.v[i] = __float2half_rn(copysignf(1.0f, v[i])), lo.v[i] = __float2half_rn(v[i]);
    }
}

template <int FEATURES>
__device__ __forceinline__ void load_weight(const Conv& p, const Unit& unit, int stage, unsigned char* to, uint64_t* full) {
    constexpr int kBytes = Layout<FEATURES>::kWeightBytes, kHalfFactors = Layout<FEATURES>::kWeightFactorBytes / 2;
    const int first = unit.features * FEATURES % kTile;
    const int64_t tile = static_cast<int64_t>(unit.group) * p.of_group() + unit.features * FEATURES / kTile;
    const unsigned char* from = p.weight + (tile * p.stages + stage) * matmul::kPackedBytes;
    matrix::barrier_expect(full, 2 * kBytes + 2 * kHalfFactors);
    if constexpr (FEATURES == kTile) {
        matrix::bulk_load(to, from, matmul::kPackedBytes, full);
    } else {
        for (int half = 0; half < 2; ++half) {
            matrix::bulk_load(to + half * kBytes, from + half * kHalfBytes + first * matrix::kRowBytes, kBytes, full);
            matrix::bulk_load(to + 2 * kBytes + half * kHalfFactors,
                              from + kOperandBytes + (half * kTile + first) * int{sizeof(float)}, kHalfFactors, full);
        }
    }
}

// The threads that fill the ring: one for each half of a row of the tile.
template <int FEATURES>
__device__ __forceinline__ void gather_units(const Conv& p, const matmul::Ring& ring, int thread) {
    constexpr int kStages = Layout<FEATURES>::kStages;
    const int row = thread % kTile, half = thread / kTile;
    const int first = half * kOfThread;
    matmul::Turn turn = {0, 1};  // the first round finds every stage free
    for (int number = blockIdx.x; number < units_of<FEATURES>(p); number += gridDim.x) {
        const Unit unit = unit_at<FEATURES>(p, number);
        const int pixel_number = unit.pixels * kTile + row;
        const Pixel pixel = pixel_at(p.shape, pixel_number);
        const float* window = p.x + pixel.first + unit.group * p.shape.group_values();
        for (int i = 0; i < p.stages; ++i, turn.next(kStages)) {
            unsigned char* to = ring.stages + turn.stage * Layout<FEATURES>::kStageBytes;
            const auto* taps = reinterpret_cast<const int4*>(p.taps + i * kDepth + first);
            float v[kOfThread];
            #pragma unroll
            for (int j = 0; j < kOfThread; j += 2) {
                const int4 two = __ldg(taps + j / 2);
                const unsigned needed = two.y, next_needed = two.w;
                v[j] = (pixel.mask & needed) == needed ? __ldg(window + two.x) : 0.0f;
                v[j + 1] = (pixel.mask & next_needed) == next_needed ? __ldg(window + two.z) : 0.0f;
            }
            const int exponent = matmul::exponent_for(matmul::largest_of<kOfThread>(v));
            const float scale = matmul::scale_of(exponent);
            const float nudge = matmul::nudge_of(matmul::drawn_for(pixel_number, 2 * i + half));
            const float nudges[2] = {nudge, 2.0f - nudge};
            matrix::barrier_wait(ring.free + turn.stage, turn.parity);
            if (thread == 0) load_weight<FEATURES>(p, unit, i, to + kOperandBytes, ring.full + turn.stage);
            #pragma unroll
            for (int j = 0; j < kOfThread; j += 8) {
                linear::Halves hi, lo;
                split_eight(v + j, scale, nudges, hi, lo);
                unsigned char* at = to + matrix::swizzled(row, (first + j) / 8);
                *reinterpret_cast<linear::Halves*>(at) = hi;
                *reinterpret_cast<linear::Halves*>(at + kHalfBytes) = lo;
            }
            auto* factors = reinterpret_cast<float*>(to + Layout<FEATURES>::kFactorsAt + Layout<FEATURES>::kWeightFactorBytes);
            factors[thread] = matmul::factor_of(exponent, false);
            matrix::stores_made();
            __syncwarp();
            if (thread % 32 == 0) matrix::barrier_arrive(ring.full + turn.stage);
        }
    }
}

// The products of half a stage for 64 pixels, of up to `steps` times 16 of depth, issued; the small ones first.
template <int FEATURES>
__device__ __forceinline__ void multiply_half(float (&partial)[FEATURES / 2], const unsigned char* stage, int group, int half,
                                              int steps, bool all) {
    const unsigned char* x = stage + group * 64 * matrix::kRowBytes + half * 64;
    const unsigned char* weight = stage + kOperandBytes + half * 64;
    #pragma unroll
    for (int step = 0; step < 2; ++step) {
        if (step >= steps) break;
        const uint64_t hi_x = matrix::tile_descriptor(x + step * 32), hi_weight = matrix::tile_descriptor(weight + step * 32);
        const uint64_t lo_x = matrix::tile_descriptor(x + kHalfBytes + step * 32);
        const uint64_t lo_weight = matrix::tile_descriptor(weight + Layout<FEATURES>::kWeightBytes + step * 32);
        if (all) matrix::matrix_multiply(partial, lo_x, lo_weight, step > 0);
        matrix::matrix_multiply(partial, lo_x, hi_weight, all || step > 0);
        matrix::matrix_multiply(partial, hi_x, lo_weight, 1);
    }
    #pragma unroll
    for (int step = 0; step < 2; ++step) {
        if (step >= steps) break;
        matrix::matrix_multiply(partial, matrix::tile_descriptor(x + step * 32), matrix::tile_descriptor(weight + step * 32), 1);
    }
}

// Where a pixel's features go; found before the products, so that nothing is waited for behind them.
struct Row {
    float* to;  // null past the last pixel
    int number;
};

template <int FEATURES>
__device__ __forceinline__ Row row_at(const Conv& p, const Unit& unit, int number) {
    const Shape& s = p.shape;
    if (number >= s.pixels()) return {nullptr, 0};
    const int64_t first = static_cast<int64_t>(unit.group) * s.features + unit.features * FEATURES + threadIdx.x % 4 * 2;
    return {p.y + place_in_y(s, number) + first * s.plane, number};
}

// One element in float arithmetic; a feature past the last is 0.
__device__ __noinline__ float in_float(const Conv& p, int group, int number, int feature) {
    if (feature >= p.shape.features) return 0.0f;
    const Pixel pixel = pixel_at(p.shape, number);
    const int depth = p.shape.depth();
    const float* window = p.x + pixel.first + group * p.shape.group_values();
    const float* weight = p.plain + (static_cast<int64_t>(group) * p.shape.features + feature) * depth;
    float sum = 0.0f;
    for (int i = 0; i < depth; ++i) {
        const Tap tap = tap_at(p.shape, i);
        sum = fmaf((pixel.mask & tap.needed) == tap.needed ? __ldg(window + tap.offset) : 0.0f, __ldg(weight + i), sum);
    }
    return sum;
}

// Makes of the sums what is stored, in place and without a branch between them.
template <int FEATURES>
__device__ __forceinline__ void finish_unit(const Conv& p, float (&sum)[FEATURES / 2], const Unit& unit, const Row (&rows)[2]) {
    const int column = unit.features * FEATURES + threadIdx.x % 4 * 2;
    float infinite = 0.0f;  // or NaN, where a sum is not finite
    #pragma unroll
    for (int i = 0; i < FEATURES / 2; ++i) infinite = fmaf(sum[i], 0.0f, infinite);
    if (p.all && infinite != 0.0f) {
        #pragma unroll
        for (int i = 0; i < FEATURES / 2; ++i) {
            if (isfinite(sum[i]) || rows[i / 2 % 2].to == nullptr) continue;
            sum[i] = in_float(p, unit.group, rows[i / 2 % 2].number, column + i / 4 * 8 + i % 2);
        }
    }
    if (p.bias == nullptr) return;
    #pragma unroll
    for (int j = 0; j < FEATURES / 8; ++j) {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int feature = column + 8 * j + i;
            const float bias = feature < p.shape.features ? __ldg(p.bias + unit.group * p.shape.features + feature) : 0.0f;
            sum[4 * j + i] += bias;
            sum[4 * j + 2 + i] += bias;
        }
    }
}

template <int FEATURES>
__device__ __forceinline__ void store_unit(const Conv& p, float (&sum)[FEATURES / 2], const Unit& unit, const Row (&rows)[2]) {
    finish_unit<FEATURES>(p, sum, unit, rows);
    const int features = p.shape.features - unit.features * FEATURES - threadIdx.x % 4 * 2;  // from this thread's first on
    const bool whole = (unit.features + 1) * FEATURES <= p.shape.features;
    const int64_t plane = p.shape.plane;
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        float* to = rows[half].to;
        if (to == nullptr) continue;
        if (whole) {
            #pragma unroll
            for (int j = 0; j < FEATURES / 8; ++j, to += 8 * plane) {
                to[0] = sum[4 * j + 2 * half];
                to[plane] = sum[4 * j + 2 * half + 1];
            }
            continue;
        }
        #pragma unroll
        for (int j = 0; j < FEATURES / 8; ++j, to += 8 * plane) {
            if (8 * j < features) to[0] = sum[4 * j + 2 * half];
            if (8 * j + 1 < features) to[plane] = sum[4 * j + 2 * half + 1];
        }
    }
}

template <int FEATURES>
__device__ __forceinline__ void multiply_units(const Conv& p, const matmul::Ring& ring, int group) {
    constexpr int kStages = Layout<FEATURES>::kStages;
    matmul::Turn turn = {0, 0};
    for (int number = blockIdx.x; number < units_of<FEATURES>(p); number += gridDim.x) {
        const Unit unit = unit_at<FEATURES>(p, number);
        const int pixel = linear::place_of(unit.pixels * kTile + group * 64, 0).row;
        const Row rows[2] = {row_at<FEATURES>(p, unit, pixel), row_at<FEATURES>(p, unit, pixel + 8)};
        float sum[FEATURES / 2];
        float partial[FEATURES / 2];
        #pragma unroll
        for (int i = 0; i < FEATURES / 2; ++i) sum[i] = partial[i] = 0.0f;
        for (int i = 0; i < p.stages; ++i, turn.next(kStages)) {
            const int steps = min(kDepth / 16, (p.shape.depth() - i * kDepth + 15) / 16);
            const unsigned char* stage = ring.stages + turn.stage * Layout<FEATURES>::kStageBytes;
            const float* of_weight = reinterpret_cast<const float*>(stage + Layout<FEATURES>::kFactorsAt);
            const float* of_x = of_weight + 2 * FEATURES + linear::place_of(group * 64, 0).row;
            matrix::barrier_wait(ring.full + turn.stage, turn.parity);
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                if (2 * half >= steps) break;
                matrix::matrix_begin();
                multiply_half<FEATURES>(partial, stage, group, half, steps - 2 * half, p.all);
                matrix::matrix_wait(partial);
                matmul::add(sum, partial, of_x + half * kTile, of_weight + half * FEATURES);
            }
            __syncwarp();  // every lane has read its factors
            if (threadIdx.x % 32 == 0) matrix::barrier_arrive(ring.free + turn.stage);
        }
        store_unit<FEATURES>(p, sum, unit, rows);
    }
}

// One block on an SM, which takes units in turn.
template <int FEATURES>
__global__ void __launch_bounds__(kThreads, 1) conv_fp32x3(const __grid_constant__ Conv p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // elsewhere nobody calls it
    constexpr int kStages = Layout<FEATURES>::kStages;
    extern __shared__ unsigned char shared[];
    const matmul::Ring ring = matmul::ring_in(shared, kStages, Layout<FEATURES>::kStageBytes);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
            matrix::barrier_init(ring.full + stage, kGatherers / 32 + 1);
            matrix::barrier_init(ring.free + stage, kConsumers * 4);
        }
        matrix::barriers_made();
    }
    __syncthreads();
    const int group = threadIdx.x / 128;
    if (group < kConsumers) {
        sm90::take_registers<kConsumerRegisters>();
        multiply_units<FEATURES>(p, ring, group);
    } else {
        sm90::give_registers<kGathererRegisters>();
        gather_units<FEATURES>(p, ring, threadIdx.x - 128 * kConsumers);
    }
#endif
}

template <int FEATURES>
cudaError_t multiply(const Conv& p, int64_t sms, cudaStream_t stream) {
    const auto kernel = conv_fp32x3<FEATURES>;
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   Layout<FEATURES>::kSharedBytes);
    if (error != cudaSuccess) return error;
    kernel<<<std::min(static_cast<int>(sms), units_of<FEATURES>(p)), kThreads, Layout<FEATURES>::kSharedBytes, stream>>>(p);
    return cudaGetLastError();
}

}  // namespace kernelwright::conv
