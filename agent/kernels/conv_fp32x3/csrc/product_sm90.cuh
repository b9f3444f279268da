// A convolution in float's accuracy from three fp16 products, on sm_90a: 128 pixels by FEATURES features at a time.
//
// Two warpgroups gather the pixels' windows from x, split them (linear_fp32x3/csrc/split_sm90.cuh) and store them to
// shared memory as the tensor cores read them; nothing of the unfolded input reaches memory. Two others multiply, 64
// pixels each. The weight is split beforehand and comes by bulk copies. The sums and their accuracy are
// linear_fp32x3/csrc/product_sm90.cuh's.
#pragma once

#include <algorithm>

#include "../../matmul_fp32x3/csrc/product_sm90.cuh"
#include "../../csrc/warpgroups_sm90.cuh"
#include "exponents_sm90.cuh"


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
    static constexpr int kStageBytes = kOperandBytes + 2 * kWeightBytes;
    static constexpr int kStages = FEATURES == 128 ? 3 : 4;
    static constexpr int kSharedBytes = kStages * kStageBytes + matrix::kAtomBytes + 2 * kStages * 8;
};

struct Conv {
    Shape shape;
    const float* x;
    linear::Packed weight;  // groups matrices of [features, depth]
    const float* bias;
    float* y;
    const int* exponents;   // [groups, pixels]
    const Tap* taps;        // a multiple of kDepth
    int stages;

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

// Eight scaled values of a row, split; all at once where every one is finite.
__device__ __forceinline__ void split_eight(const float* v, const linear::Scale& scale, linear::Halves& hi,
                                            linear::Halves& lo) {
    __half2 seen = __float2half2_rn(0.0f);
    #pragma unroll
    for (int i = 0; i < 8; i += 2) {
        const float2 scaled = {v[i] * scale.first * scale.second, v[i + 1] * scale.first * scale.second};
        const __half2 high = __floats2half2_rn(scaled.x, scaled.y);
        const float2 back = __half22float2(high);
        const __half2 low = __floats2half2_rn(scaled.x - back.x, scaled.y - back.y);
        seen = __hadd2(seen, low);
        hi.v[i] = __low2half(high), hi.v[i + 1] = __high2half(high);
        lo.v[i] = __low2half(low), lo.v[i + 1] = __high2half(low);
    }
    const float2 sums = __half22float2(seen);
    if (sums.x == sums.x && sums.y == sums.y) return;  // an infinity less itself is no number
    #pragma unroll
    for (int i = 0; i < 8; ++i) linear::split_one(v[i], scale, hi.v[i], lo.v[i]);
}

template <int FEATURES>
__device__ __forceinline__ void load_weight(const Conv& p, const Unit& unit, int stage, unsigned char* to, uint64_t* full) {
    constexpr int kBytes = Layout<FEATURES>::kWeightBytes;
    const int first = unit.features * FEATURES;
    const int64_t tile = static_cast<int64_t>(unit.group) * p.of_group() + first / kTile;
    const unsigned char* from = p.weight.tiles + (tile * p.stages + stage) * kOperandBytes + first % kTile * matrix::kRowBytes;
    matrix::barrier_expect(full, 2 * kBytes);
    matrix::bulk_load(to, from, kBytes, full);
    matrix::bulk_load(to + kBytes, from + kHalfBytes, kBytes, full);
}

// What a row of a tile is gathered from.
struct Source {
    const float* window;
    unsigned mask;
    int exponent;
};

template <int FEATURES>
__device__ __forceinline__ Source source_at(const Conv& p, int number, int row) {
    if (number >= units_of<FEATURES>(p)) return {p.x, 0, 0};
    const Unit unit = unit_at<FEATURES>(p, number);
    const int pixel_number = unit.pixels * kTile + row;
    const Pixel pixel = pixel_at(p.shape, pixel_number);
    const bool is_pixel = pixel_number < p.shape.pixels();
    const int* exponent = p.exponents + static_cast<int64_t>(unit.group) * p.shape.pixels() + pixel_number;
    return {p.x + pixel.first + unit.group * p.shape.group_values(), pixel.mask, is_pixel ? __ldg(exponent) : 0};
}

// The threads that fill the ring: a row of the tile for each two.
template <int FEATURES>
__device__ __forceinline__ void gather_units(const Conv& p, const linear::Ring& ring, int thread) {
    constexpr int kStages = Layout<FEATURES>::kStages;
    const int row = thread % kTile;
    const int first = thread / kTile * kOfThread;
    matmul::Turn turn = {0, 1};  // the first round finds every stage free
    Source next = source_at<FEATURES>(p, blockIdx.x, row);
    for (int number = blockIdx.x; number < units_of<FEATURES>(p); number += gridDim.x) {
        const Unit unit = unit_at<FEATURES>(p, number);
        const Source source = next;
        next = source_at<FEATURES>(p, number + gridDim.x, row);  // its scale comes while this one is gathered
        const int exponent = source.exponent;
        const linear::Scale scale = {ldexpf(1.0f, exponent / 2), ldexpf(1.0f, exponent - exponent / 2)};
        for (int i = 0; i < p.stages; ++i, turn.next(kStages)) {
            unsigned char* to = ring.stages + turn.stage * Layout<FEATURES>::kStageBytes;
            const auto* taps = reinterpret_cast<const int4*>(p.taps + i * kDepth + first);
            float v[kOfThread];
            #pragma unroll
            for (int j = 0; j < kOfThread; j += 2) {
                const int4 two = __ldg(taps + j / 2);
                const unsigned needed = two.y, next_needed = two.w;
                v[j] = (source.mask & needed) == needed ? __ldg(source.window + two.x) : 0.0f;
                v[j + 1] = (source.mask & next_needed) == next_needed ? __ldg(source.window + two.z) : 0.0f;
            }
            matrix::barrier_wait(ring.free + turn.stage, turn.parity);
            if (thread == 0) load_weight<FEATURES>(p, unit, i, to + kOperandBytes, ring.full + turn.stage);
            #pragma unroll
            for (int j = 0; j < kOfThread; j += 8) {
                linear::Halves hi, lo;
                split_eight(v + j, scale, hi, lo);
                unsigned char* at = to + matrix::swizzled(row, (first + j) / 8);
                *reinterpret_cast<linear::Halves*>(at) = hi;
                *reinterpret_cast<linear::Halves*>(at + kHalfBytes) = lo;
            }
            matrix::stores_made();
            __syncwarp();
            if (thread % 32 == 0) matrix::barrier_arrive(ring.full + turn.stage);
        }
    }
}

// The three products of half a stage for 64 pixels, of up to `steps` times 16 of depth, issued; the small
// ones first.
template <int FEATURES>
__device__ __forceinline__ void multiply_half(float (&partial)[FEATURES / 2], const unsigned char* stage, int group, int half,
                                              int steps) {
    const unsigned char* x = stage + group * 64 * matrix::kRowBytes + half * 64;
    const unsigned char* weight = stage + kOperandBytes + half * 64;
    #pragma unroll
    for (int step = 0; step < 2; ++step) {
        if (step >= steps) break;
        const int at = step * 32;
        matrix::matrix_multiply(partial, matrix::tile_descriptor(x + kHalfBytes + at), matrix::tile_descriptor(weight + at),
                                step > 0);
        matrix::matrix_multiply(partial, matrix::tile_descriptor(x + at),
                                matrix::tile_descriptor(weight + Layout<FEATURES>::kWeightBytes + at), 1);
    }
    #pragma unroll
    for (int step = 0; step < 2; ++step) {
        if (step >= steps) break;
        matrix::matrix_multiply(partial, matrix::tile_descriptor(x + step * 32), matrix::tile_descriptor(weight + step * 32), 1);
    }
}

// Where a pixel's features go, and its scale; found before the products, so that nothing is waited for behind them.
struct Row {
    float* to;  // null past the last pixel
    int exponent;
};

template <int FEATURES>
__device__ __forceinline__ Row row_at(const Conv& p, const Unit& unit, int number) {
    const Shape& s = p.shape;
    if (number >= s.pixels()) return {nullptr, 0};
    const int64_t first = static_cast<int64_t>(unit.group) * s.features + unit.features * FEATURES + threadIdx.x % 4 * 2;
    return {p.y + place_in_y(s, number) + first * s.plane,
            __ldg(p.exponents + static_cast<int64_t>(unit.group) * s.pixels() + number)};
}

// Makes of the sums what is stored, in place and without a branch between them.
template <int FEATURES>
__device__ __forceinline__ void finish_unit(const Conv& p, float (&sum)[FEATURES / 2], const Unit& unit, const Row (&rows)[2]) {
    const int column = unit.features * FEATURES + threadIdx.x % 4 * 2;
    const int* exponents = p.weight.exponents + static_cast<int64_t>(unit.group) * p.of_group() * kTile + column;
    #pragma unroll
    for (int j = 0; j < FEATURES / 8; ++j) {
        const int2 of_weight = __ldg(reinterpret_cast<const int2*>(exponents + 8 * j));
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            sum[4 * j + i] = linear::unscaled(sum[4 * j + i], rows[i / 2].exponent + (i % 2 == 0 ? of_weight.x : of_weight.y));
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
__device__ __forceinline__ void multiply_units(const Conv& p, const linear::Ring& ring, int group) {
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
            matrix::barrier_wait(ring.full + turn.stage, turn.parity);
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                if (2 * half >= steps) break;
                matrix::matrix_begin();
                multiply_half<FEATURES>(partial, ring.stages + turn.stage * Layout<FEATURES>::kStageBytes, group, half,
                                        steps - 2 * half);
                matrix::matrix_wait(partial);
                if (threadIdx.x % 32 == 0 && 2 * half + 2 >= steps) matrix::barrier_arrive(ring.free + turn.stage);
                #pragma unroll
                for (int j = 0; j < FEATURES / 2; ++j) sum[j] += partial[j];
            }
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
    const uint32_t past = matrix::shared_address(shared) % matrix::kAtomBytes;
    linear::Ring ring;
    ring.stages = shared + (past == 0 ? 0 : matrix::kAtomBytes - past);
    ring.full = reinterpret_cast<uint64_t*>(ring.stages + kStages * Layout<FEATURES>::kStageBytes);
    ring.free = ring.full + kStages;
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
