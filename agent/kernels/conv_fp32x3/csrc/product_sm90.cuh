// A convolution with float accuracy from three fp16 products, on sm_90a, in tiles of 128 pixels by FEATURES features.
//
// Two warpgroups gather the pixels' windows from x, split them (matmul_fp32x3/csrc/split_sm90.cuh) and store them to shared
// memory in the layout of the tensor cores. The unfolded input never reaches global memory. Two other warpgroups multiply, 64
// pixels each. The weight is split beforehand, like matmul_fp32x3's b, and loaded by bulk copies. For the sums and their
// accuracy see matmul_fp32x3/csrc/product_sm90.cuh. For a small depth lo * lo is included, and results that are not finite
// are recomputed.
#pragma once

#include <algorithm>

#include "../../matmul_fp32x3/csrc/anew.cuh"
#include "../../matmul_fp32x3/csrc/product_sm90.cuh"
#include "../../csrc/warpgroups_sm90.cuh"
#include "sizes.cuh"

namespace kernelwright::conv {

using linear::kDepth;
using linear::kHalfBytes;
using linear::kOperandBytes;
using linear::kTile;

constexpr int kConsumers = 2;
constexpr int kGatherers = 256;  // threads that gather windows
constexpr int kThreads = 128 * kConsumers + kGatherers;
constexpr int kOfThread = kTile * kDepth / kGatherers;  // values gathered per thread and stage
constexpr int kConsumerRegisters = 168;
constexpr int kGathererRegisters = 88;

template <int FEATURES>
struct Layout {
    static constexpr int kWeightBytes = FEATURES * matrix::kRowBytes;  // bytes of hi or lo of the weight's tile
    static constexpr int kFactorsAt = kOperandBytes + 2 * kWeightBytes;  // offset of x's factors in a stage
    static constexpr int kStageBytes = kFactorsAt + matmul::kFactorBytes;
    static constexpr int kStages = FEATURES == 128 ? 3 : 4;
    static constexpr int kSharedBytes = kStages * kStageBytes + matrix::kAtomBytes + 2 * kStages * 8;
};

struct Conv {
    Shape shape;
    const float* x;
    const float* plain;           // the weight, groups matrices of [features, depth]
    const unsigned char* weight;  // the weight split and packed
    const int* exponents;         // exponents of the weight's rows
    const float* bias;
    float* y;
    const Tap* taps;              // count padded to a multiple of kDepth
    matmul::Schedule cut;
    float* partial;               // sums of streamed tiles' parts
    int* ended;
    int* factors;                 // [streamed, kTile], bits of the largest factor of each pixel of streamed tiles
    int* losses;                  // [tiles], flags of Loss
    int* listed;                  // number of tiles with flags in `losses`; `list` has these tiles
    int* list;
    const int* sparse;            // number of half stages of the weight's rows that are not dense
    int width;                    // features per tile
    bool all;                     // lo * lo is included

    __host__ __device__ int of_group() const { return (shape.features + kTile - 1) / kTile; }  // packed tiles of a group's weight
};

// Position of a tile. Tiles with the same pixels are adjacent in order, so that the pixels stay in the caches.
struct Place {
    int pixels, features, group;
};

__device__ __forceinline__ Place place_at(const Conv& p, int number, int width) {
    const int n_tiles = (p.shape.features + width - 1) / width;
    const int rest = number / n_tiles;
    return {rest / p.shape.groups, number % n_tiles, rest % p.shape.groups};
}

template <int FEATURES>
__device__ __forceinline__ void load_weight(const Conv& p, const Place& place, int stage, unsigned char* to, uint64_t* full) {
    constexpr int kBytes = Layout<FEATURES>::kWeightBytes;
    const int first = place.features * FEATURES;
    const int64_t tile = static_cast<int64_t>(place.group) * p.of_group() + first / kTile;
    const unsigned char* from = p.weight + (tile * p.cut.stages + stage) * kOperandBytes + first % kTile * matrix::kRowBytes;
    matrix::barrier_expect(full, 2 * kBytes);
    matrix::bulk_load(to, from, kBytes, full);
    matrix::bulk_load(to + kBytes, from + kHalfBytes, kBytes, full);
}

// Gathers kOfThread consecutive depths of a pixel's window.
__device__ __forceinline__ void gather(float (&v)[kOfThread], const float* window, unsigned mask, const Tap* from) {
    const auto* taps = reinterpret_cast<const int4*>(from);
    #pragma unroll
    for (int j = 0; j < kOfThread; j += 2) {
        const int4 two = __ldg(taps + j / 2);
        const unsigned needed = two.y, next_needed = two.w;
        v[j] = (mask & needed) == needed ? __ldg(window + two.x) : 0.0f;
        v[j + 1] = (mask & next_needed) == next_needed ? __ldg(window + two.z) : 0.0f;
    }
}

// Gathers and splits the windows; run by the producers, one thread for each half of a row of the tile.
template <int FEATURES>
__device__ __forceinline__ void gather_units(const Conv& p, const matmul::Ring& ring, int thread) {
    constexpr int kStages = Layout<FEATURES>::kStages;
    const int row = thread % kTile, half = thread / kTile;
    const int first = half * kOfThread;
    matmul::Turn turn = {0, 1};  // in the first round every stage is free
    matmul::Units units(p.cut);
    for (matmul::Unit unit; units.next(p.cut, unit);) {
        const Place place = place_at(p, unit.tile, FEATURES);
        const int pixel_number = place.pixels * kTile + row;
        const Pixel pixel = pixel_at(p.shape, pixel_number);
        const float* window = p.x + pixel.first + place.group * p.shape.group_values();
        for (int i = unit.begin; i < unit.end; ++i, turn.next(kStages)) {
            unsigned char* to = ring.stages + turn.stage * Layout<FEATURES>::kStageBytes;
            float v[kOfThread];
            gather(v, window, pixel.mask, p.taps + i * kDepth + first);
            const int exponent = matmul::exponent_for(matmul::largest_of<kOfThread>(v));
            const float scale = matmul::scale_of(exponent);
            matrix::barrier_wait(ring.free + turn.stage, turn.parity);
            if (thread == 0) load_weight<FEATURES>(p, place, i, to + kOperandBytes, ring.full + turn.stage);
            #pragma unroll
            for (int j = 0; j < kOfThread; j += 8) {
                linear::Halves hi, lo;
                linear::split_eight<false>(v + j, scale, pixel_number, i * kDepth + first + j, hi, lo);
                unsigned char* at = to + matrix::swizzled(row, (first + j) / 8);
                *reinterpret_cast<linear::Halves*>(at) = hi;
                *reinterpret_cast<linear::Halves*>(at + kHalfBytes) = lo;
            }
            reinterpret_cast<float*>(to + Layout<FEATURES>::kFactorsAt)[thread] = matmul::factor_of(exponent);
            matrix::stores_made();
            __syncwarp();
            matrix::barrier_arrive(ring.full + turn.stage);
        }
    }
}

// Issues the products of half a stage for 64 pixels, small products first.
template <int FEATURES, bool ALL>
__device__ __forceinline__ void multiply_half(float (&partial)[FEATURES / 2], const unsigned char* stage, int group, int half) {
    const unsigned char* x = stage + group * 64 * matrix::kRowBytes + half * 64;
    const unsigned char* weight = stage + kOperandBytes + half * 64;
    #pragma unroll
    for (int step = 0; step < 2; ++step) {
        const uint64_t hi_x = matrix::tile_descriptor(x + step * 32), hi_weight = matrix::tile_descriptor(weight + step * 32);
        const uint64_t lo_x = matrix::tile_descriptor(x + kHalfBytes + step * 32);
        const uint64_t lo_weight = matrix::tile_descriptor(weight + Layout<FEATURES>::kWeightBytes + step * 32);
        if (ALL) matrix::matrix_multiply(partial, lo_x, lo_weight, step > 0);
        matrix::matrix_multiply(partial, lo_x, hi_weight, ALL || step > 0);
        matrix::matrix_multiply(partial, hi_x, lo_weight, 1);
    }
    #pragma unroll
    for (int step = 0; step < 2; ++step) {
        matrix::matrix_multiply(partial, matrix::tile_descriptor(x + step * 32), matrix::tile_descriptor(weight + step * 32), 1);
    }
}

// Destination of a pixel's features, computed before the products so that the epilogue does not wait for it.
struct Row {
    float* to;  // destination, null past the last pixel
    int number;
};

template <int FEATURES>
__device__ __forceinline__ Row row_at(const Conv& p, const Place& place, int number) {
    const Shape& s = p.shape;
    if (number >= s.pixels()) return {nullptr, 0};
    const int64_t first = static_cast<int64_t>(place.group) * s.features + place.features * FEATURES + threadIdx.x % 4 * 2;
    return {p.y + place_in_y(s, number) + first * s.plane, number};
}

// Computes one element in float arithmetic; 0 for a feature past the last.
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

constexpr int kLookedAt = 4;  // one of this many groups of eight features is tested for small sums

// Scales of the features' weights, powers of two close to their largest values: the maximum over a thread's features, and the sum
// over the tested features.
struct Scales {
    float largest, all;
};

// Turns the sums into results in place: undoes the scaling, recomputes results that are not finite (ALL), adds the bias.
template <int FEATURES, bool ALL>
__device__ __forceinline__ Scales finish_tile(const Conv& p, float (&sum)[FEATURES / 2], const Place& place, const Row (&rows)[2]) {
    const int column = place.features * FEATURES + threadIdx.x % 4 * 2;
    const int* exponents = p.exponents + static_cast<int64_t>(place.group) * p.of_group() * kTile + column;
    int least = matmul::kNoValue;
    float scales = 0.0f;
    #pragma unroll
    for (int j = 0; j < FEATURES / 8; ++j) {
        const int2 two = __ldg(reinterpret_cast<const int2*>(exponents + 8 * j));
        least = min(least, min(two.x, two.y));
        if (j % kLookedAt == 0) scales += matmul::scale_of(-two.x) + matmul::scale_of(-two.y);
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            sum[4 * j + i] = linear::unscaled(sum[4 * j + i], (i % 2 == 0 ? two.x : two.y) - matmul::kMargin);
        }
    }
    float infinite = 0.0f;  // NaN if any sum is not finite
    #pragma unroll
    for (int i = 0; ALL && i < FEATURES / 2; ++i) infinite = fmaf(sum[i], 0.0f, infinite);
    if (ALL && infinite != 0.0f) {
        #pragma unroll
        for (int i = 0; i < FEATURES / 2; ++i) {
            if (isfinite(sum[i]) || rows[i / 2 % 2].to == nullptr) continue;
            sum[i] = in_float(p, place.group, rows[i / 2 % 2].number, column + i / 4 * 8 + i % 2);
        }
    }
    const Scales found = {matmul::scale_of(-least), scales};
    if (p.bias == nullptr) return found;
    #pragma unroll
    for (int j = 0; j < FEATURES / 8; ++j) {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int feature = column + 8 * j + i;
            const float bias = feature < p.shape.features ? __ldg(p.bias + place.group * p.shape.features + feature) : 0.0f;
            sum[4 * j + i] += bias;
            sum[4 * j + 2 + i] += bias;
        }
    }
    return found;
}

// Reasons to check a tile (anew_sm90.cuh): sums so small that a window's small values may have lost too much accuracy, or sums that may be
// short.
enum Loss { kSmall = 1, kShort = 2 };

constexpr float kLargest = static_cast<float>(int64_t{1} << 2 * matmul::kMargin);  // least product of two largest values, scaled

// Tests a warp's sums and lists the tile if they are small. `factors` are the largest factors of a thread's two rows.
template <int FEATURES>
__device__ __forceinline__ void note_losses(const Conv& p, const float (&sum)[FEATURES / 2], Scales scales, const Place& place,
                                            int number, const float (&factors)[2]) {
    constexpr unsigned kAll = 0xffffffffu;
    float sizes[2] = {0.0f, 0.0f};
    #pragma unroll
    for (int j = 0; j < FEATURES / 8; j += kLookedAt) {
        sizes[0] += fabsf(sum[4 * j]) + fabsf(sum[4 * j + 1]);
        sizes[1] += fabsf(sum[4 * j + 2]) + fabsf(sum[4 * j + 3]);
    }
    #pragma unroll
    for (int lanes = 1; lanes < 4; lanes *= 2) {  // lanes that share the rows of the thread
        sizes[0] += __shfl_xor_sync(kAll, sizes[0], lanes), sizes[1] += __shfl_xor_sync(kAll, sizes[1], lanes);
        scales.largest = fmaxf(scales.largest, __shfl_xor_sync(kAll, scales.largest, lanes));
        scales.all += __shfl_xor_sync(kAll, scales.all, lanes);
    }
    // A row's rms is at least the sum of the `looked_at` tested magnitudes, divided by sqrt(looked_at * features).
    const int features = min(FEATURES, p.shape.features - place.features * FEATURES);
    const int looked_at = features / (8 * kLookedAt) * 8 + min(features % (8 * kLookedAt), 8);
    const float products = 2.0f * static_cast<float>(p.shape.depth());
    const float needed = matmul::needed_for(products * static_cast<float>(features * looked_at)) * (1 << matmul::kMargin) * scales.largest;
    const float none = matmul::factor_of(matmul::kNoValue);
    bool small = false;
    float all = 0.0f, largest = 0.0f;
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        if (factors[i] <= none) continue;
        small |= sizes[i] < needed * factors[i];
        all += sizes[i], largest += factors[i] * scales.all;
    }
    #pragma unroll
    for (int lanes = 4; lanes < 32; lanes *= 2) {
        all += __shfl_xor_sync(kAll, all, lanes), largest += __shfl_xor_sync(kAll, largest, lanes);
    }
    const int losses = (__any_sync(kAll, small) ? kSmall : 0) | (all < kLargest * largest ? kShort : 0);
    if (losses == 0 || threadIdx.x % 32 > 0) return;
    if (atomicOr(p.losses + number, losses) == 0) p.list[atomicAdd(p.listed, 1)] = number;
}

template <int FEATURES>
__device__ __forceinline__ void store_tile(const Conv& p, const float (&sum)[FEATURES / 2], const Place& place, const Row (&rows)[2]) {
    const int features = p.shape.features - place.features * FEATURES - threadIdx.x % 4 * 2;  // features from this thread's on
    const bool whole = (place.features + 1) * FEATURES <= p.shape.features;
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

// Returns the memory in which the blocks that share a streamed tile merge the largest factors of a thread's two rows, or null. It
// is written before the sums are joined and read after.
__device__ __forceinline__ int* factors_of(const Conv& p, const matmul::Unit& unit, int row) {
    const bool is_shared = unit.tile < p.cut.streamed && unit.end - unit.begin < p.cut.stages;
    return is_shared ? p.factors + unit.tile * kTile + row : nullptr;
}

__device__ __forceinline__ void leave_factors(int* to, const float (&factors)[2]) {
    if (to == nullptr || threadIdx.x % 4 > 0) return;
    atomicMax(to, __float_as_int(factors[0]));
    atomicMax(to + 8, __float_as_int(factors[1]));
}

__device__ __forceinline__ void take_factors(const int* from, float (&factors)[2]) {
    if (from == nullptr) return;
    factors[0] = __int_as_float(__ldcg(from)), factors[1] = __int_as_float(__ldcg(from + 8));
}

template <int FEATURES, bool ALL>
__device__ __forceinline__ void multiply_units(const Conv& p, const matmul::Ring& ring, int group) {
    constexpr int kStages = Layout<FEATURES>::kStages;
    matmul::Turn turn = {0, 0};
    matmul::Units units(p.cut);
    for (matmul::Unit unit; units.next(p.cut, unit);) {
        const Place place = place_at(p, unit.tile, FEATURES);
        const int pixel = linear::place_of(place.pixels * kTile + group * 64, 0).row;
        const Row rows[2] = {row_at<FEATURES>(p, place, pixel), row_at<FEATURES>(p, place, pixel + 8)};
        float sum[FEATURES / 2];
        float partial[FEATURES / 2];
        float largest[2] = {0.0f, 0.0f};  // largest factors of the two rows
        #pragma unroll
        for (int i = 0; i < FEATURES / 2; ++i) sum[i] = partial[i] = 0.0f;
        for (int i = unit.begin; i < unit.end; ++i, turn.next(kStages)) {
            const unsigned char* stage = ring.stages + turn.stage * Layout<FEATURES>::kStageBytes;
            const float* factors = reinterpret_cast<const float*>(stage + Layout<FEATURES>::kFactorsAt) +
                                   linear::place_of(group * 64, 0).row;
            matrix::barrier_wait(ring.full + turn.stage, turn.parity);
            const float rows_of[2][2] = {{factors[0], factors[8]}, {factors[kTile], factors[kTile + 8]}};
            largest[0] = fmaxf(largest[0], fmaxf(rows_of[0][0], rows_of[1][0]));
            largest[1] = fmaxf(largest[1], fmaxf(rows_of[0][1], rows_of[1][1]));
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                matrix::matrix_begin();
                multiply_half<FEATURES, ALL>(partial, stage, group, half);
                matrix::matrix_wait(partial);
                __syncwarp();  // all lanes have read their factors from the stage
                if (half == 1) matrix::barrier_arrive(ring.free + turn.stage);
                matmul::add(sum, partial, rows_of[half]);
            }
        }
        int* const of_others = factors_of(p, unit, linear::place_of(group * 64, 0).row);
        leave_factors(of_others, largest);
        if (!matmul::joined(p.cut, sum, unit, p.partial, p.ended)) continue;
        take_factors(of_others, largest);
        const Scales scales = finish_tile<FEATURES, ALL>(p, sum, place, rows);
        store_tile<FEATURES>(p, sum, place, rows);
        note_losses<FEATURES>(p, sum, scales, place, unit.tile, largest);
    }
}

// Computes the units of a persistent block, one block per SM.
template <int FEATURES, bool ALL>
__global__ void __launch_bounds__(kThreads, 1) conv_fp32x3(const __grid_constant__ Conv p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // this kernel is never called on other architectures
    constexpr int kStages = Layout<FEATURES>::kStages;
    extern __shared__ unsigned char shared[];
    const matmul::Ring ring = matmul::ring_in(shared, kStages, Layout<FEATURES>::kStageBytes);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
            matrix::barrier_init(ring.full + stage, kGatherers + 1);
            matrix::barrier_init(ring.free + stage, kConsumers * 128);
        }
        matrix::barriers_made();
    }
    __syncthreads();
    await_earlier();
    let_next_begin();  // the next kernel waits for the end of this kernel
    const int group = threadIdx.x / 128;
    if (group < kConsumers) {
        sm90::take_registers<kConsumerRegisters>();
        multiply_units<FEATURES, ALL>(p, ring, group);
    } else {
        sm90::give_registers<kGathererRegisters>();
        gather_units<FEATURES>(p, ring, threadIdx.x - 128 * kConsumers);
    }
#endif
}

template <int FEATURES, bool ALL>
cudaError_t multiply(const Conv& p, unsigned blocks, cudaStream_t stream) {
    const auto kernel = conv_fp32x3<FEATURES, ALL>;
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   Layout<FEATURES>::kSharedBytes);
    if (error != cudaSuccess) return error;
    return launched_with(kernel, blocks, kThreads, Layout<FEATURES>::kSharedBytes, stream, p);
}

}  // namespace kernelwright::conv
