// y = x * weight^T + bias in float's accuracy from three fp16 products, on sm_90a.
//
// With both operands split (split_sm90.cuh), hi * hi + hi * lo + lo * hi leaves out lo * lo, 2^-24 of the product, and all
// three go to one accumulator. (Ootomo and Yokota, 2022, scale the residual by 2^11 instead and need a second one.)
//
// The tensor cores cut off what they add to their accumulator, which costs 8e-5 over K = 8192. So every
// PROMOTE * 64 of K the partial sums are added to others in ordinary float arithmetic, which rounds; and of a stage's
// products the small ones come first, while there is nothing large to cut them off against. What is cut off of a stage's sum
// makes it smaller, by 0.75 (values of both signs) to 1.5 times 2^-23 of it (of one sign), as measured: it is added again.
//
// A block on each SM takes tiles of 128 x 128 in turn: one thread of the last warpgroup keeps a ring of stages filled by
// bulk copies, the others multiply, 64 rows each. [1024, 8192] * [8192, 8192]: 412 GFLOP of fp16, 0.42 ms at
// 989 TFLOP/s; of L2 512 tiles * 8.4 MB = 4.3 GB, 0.8 ms at 5.5 TB/s.
#pragma once

#include <algorithm>

#include "../../csrc/launched.cuh"
#include "../../matmul_fp32x3/csrc/anew.cuh"
#include "split_sm90.cuh"

namespace kernelwright::linear {

constexpr int kStageBytes = 2 * kOperandBytes;
constexpr int kStages = 3;
constexpr int kConsumers = 2;  // warpgroups of 64 rows; another one loads
constexpr int kThreads = 128 * (kConsumers + 1);
constexpr int kBand = 8;       // tiles of rows that the blocks go through together
constexpr int kSlots = kStages + 1;  // of exponents: as many tiles as can be under way
constexpr int kExponentBytes = kTile * static_cast<int>(sizeof(int));  // of one operand
constexpr int kSharedBytes = kStages * kStageBytes + kAtomBytes + 2 * kStages * 8 + kSlots * 2 * kExponentBytes;

struct Product {
    Packed x, weight;
    const float* bias;  // [n], or null
    int m, n, k;        // of y, of the depth
    int stages;         // of K; a multiple of PROMOTE
    // For the check behind the product (anew_sm90.cuh): whether it has anything to judge, 0 before; of each row of a tile the largest
    // value's size, [n_tiles, m_tiles * 128]; and what a row has to be if all its products lose something.
    int* suspect;
    float* sizes;
    float needed;

    __host__ __device__ int m_tiles() const { return (m + kTile - 1) / kTile; }
    __host__ __device__ int n_tiles() const { return (n + kTile - 1) / kTile; }
    __host__ __device__ int tiles() const { return m_tiles() * n_tiles(); }
};

// What a stage's sum is multiplied by.
constexpr float kCutOff = 1.0f + 1.0f / (1 << 23);

struct Tile {
    int of_x;
    int of_weight;
};

// In bands of kBand tiles of x, down a band first: what blocks multiply at one time is as square as it can be, so that they
// share the most in L2.
__device__ __forceinline__ Tile tile_at(const Product& p, int number) {
    const int band = number / (kBand * p.n_tiles());
    const int within = number - band * kBand * p.n_tiles();
    const int rows = min(kBand, p.m_tiles() - band * kBand);
    return {band * kBand + within % rows, within / rows};
}

// A tile's exponents come with its first stage: loaded when the sums are done, they would be waited for.
struct Ring {
    unsigned char* stages;  // a multiple of 1024 bytes
    uint64_t* full;
    uint64_t* free;
    int* exponents;         // [kSlots][x's 128, weight's 128]

    __device__ __forceinline__ int* exponents_of(int tile) const { return exponents + tile % kSlots * 2 * kTile; }
};

__device__ __forceinline__ Ring ring_in(unsigned char* shared) {
    const uint32_t past = shared_address(shared) % kAtomBytes;
    Ring ring;
    ring.stages = shared + (past == 0 ? 0 : kAtomBytes - past);
    ring.full = reinterpret_cast<uint64_t*>(ring.stages + kStages * kStageBytes);
    ring.free = ring.full + kStages;
    ring.exponents = reinterpret_cast<int*>(ring.free + kStages);
    return ring;
}

// The exponents of 128 rows of x and of the weight, before their first stage.
__device__ __forceinline__ void load_exponents(const Ring& ring, int tile, const int* of_x, const int* of_weight,
                                               uint64_t* full) {
    int* to = ring.exponents_of(tile);
    bulk_load(to, of_x, kExponentBytes, full);
    bulk_load(to + kTile, of_weight, kExponentBytes, full);
}

// One thread keeps the ring filled.
__device__ __forceinline__ void load_tiles(const Product& p, const Ring& ring) {
    const int64_t tile_bytes = static_cast<int64_t>(p.stages) * kOperandBytes;
    const uint64_t policy = evict_last();
    int stage = 0, taken = 0;
    uint32_t parity = 1;  // the first round finds every stage free
    for (int number = blockIdx.x; number < p.tiles(); number += gridDim.x, ++taken) {
        const Tile tile = tile_at(p, number);
        const unsigned char* x = p.x.tiles + tile.of_x * tile_bytes;
        const unsigned char* weight = p.weight.tiles + tile.of_weight * tile_bytes;
        for (int i = 0; i < p.stages; ++i) {
            unsigned char* to = ring.stages + stage * kStageBytes;
            const int64_t from = static_cast<int64_t>(i) * kOperandBytes;
            barrier_wait(ring.free + stage, parity);
            barrier_expect(ring.full + stage, kStageBytes + (i == 0 ? 2 * kExponentBytes : 0));
            if (i == 0) {
                load_exponents(ring, taken, p.x.exponents + tile.of_x * kTile, p.weight.exponents + tile.of_weight * kTile,
                               ring.full + stage);
            }
            bulk_load(to, x + from, kOperandBytes, ring.full + stage, policy);
            bulk_load(to + kOperandBytes, weight + from, kOperandBytes, ring.full + stage, policy);
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
        const int at = step * 32;
        const bool add = !fresh || step > 0;
        matrix_multiply(partial, tile_descriptor(x + kHalfBytes + at), tile_descriptor(weight + at), add);
        matrix_multiply(partial, tile_descriptor(x + at), tile_descriptor(weight + kHalfBytes + at), 1);
    }
    #pragma unroll
    for (int step = 0; step < kDepth / 16; ++step) {
        matrix_multiply(partial, tile_descriptor(x + step * 32), tile_descriptor(weight + step * 32), 1);
    }
}

// Where in y a thread's sums belong: sum[4 * j + 2 * half + i] to row `row` + 8 * half, column `column` + 8 * j + i.
struct Place {
    int row;
    int column;
};

// Of this thread's rows and columns in a tile, which begin at its `place` there.
struct Exponents {
    const int* rows;
    const int* columns;
};

__device__ __forceinline__ Exponents exponents_at(const int* of_tile, const Place& place) {
    return {of_tile + place.row, of_tile + kTile + place.column};
}

// sum * 2^-exponent, rounded once. 2^-exponent may be no float: two factors, and what would need a smaller one is 0.
__device__ __forceinline__ float unscaled(float sum, int exponent) {
    const int both = max(254 - exponent, 2);
    const int first = both >> 1;
    return sum * __int_as_float(first << 23) * __int_as_float((both - first) << 23);
}

__device__ __forceinline__ Place place_of(int first_row, int first_column) {
    const int thread = threadIdx.x % 128;
    return {first_row + thread / 32 * 16 + thread % 32 / 4, first_column + thread % 4 * 2};
}

// Makes of a tile's sums what they stand for.
__device__ __forceinline__ void unscale(float (&sum)[64], const Exponents& exponents) {
    const int of_rows[2] = {exponents.rows[0], exponents.rows[8]};
    #pragma unroll
    for (int j = 0; j < 16; ++j) {
        const int2 two = *reinterpret_cast<const int2*>(exponents.columns + 8 * j);
        #pragma unroll
        for (int i = 0; i < 4; ++i) sum[4 * j + i] = unscaled(sum[4 * j + i], of_rows[i / 2] + (i % 2 == 0 ? two.x : two.y));
    }
}

// Over the four lanes that share a row.
__device__ __forceinline__ float row_largest(float mine) {
    mine = fmaxf(mine, __shfl_xor_sync(0xffffffffu, mine, 1));
    return fmaxf(mine, __shfl_xor_sync(0xffffffffu, mine, 2));
}

// What the largest of a row of a tile says of all.
__device__ __forceinline__ float share_in(const Product& p, int of_weight) {
    return matmul::share_of(static_cast<float>(min(kTile, p.n - of_weight * kTile)));
}

// Leaves what the check behind the product looks at. Without a branch: where lanes part, the compiler takes the descriptors of the
// whole loop out of uniform registers, which costs a sixth.
__device__ __forceinline__ void note_sizes(const Product& p, const float (&values)[64], const Exponents& exponents, const Place& at,
                                           int of_weight) {
    float sizes[2] = {0.0f, 0.0f};
    int least = kNothing;  // exponent, of the columns' largest
    #pragma unroll
    for (int j = 0; j < 16; ++j) {
        const int2 two = *reinterpret_cast<const int2*>(exponents.columns + 8 * j);
        least = min(least, min(two.x, two.y));
    }
    least = min(least, __shfl_xor_sync(0xffffffffu, least, 1));
    least = min(least, __shfl_xor_sync(0xffffffffu, least, 2));
    const float share = share_in(p, of_weight);
    #pragma unroll
    for (int i = 0; i < 64; ++i) sizes[i / 2 % 2] = fmaxf(sizes[i / 2 % 2], fabsf(values[i]));
    float* to = p.sizes + static_cast<int64_t>(of_weight) * p.m_tiles() * kTile + at.row;
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        sizes[half] = row_largest(sizes[half]);
        if (threadIdx.x % 4 == 0) to[8 * half] = sizes[half];
        if (sizes[half] * share < unscaled(p.needed, exponents.rows[8 * half] + least)) *p.suspect = 1;
    }
}

// Whether an SGEMM would share the depth out, as tiles are few.
__device__ __forceinline__ bool is_shared_out(const Product& p) { return p.tiles() <= 2 * static_cast<int>(gridDim.x); }

// Whether a tile's sums have so few products in the mean that the check behind the product has to follow some of them, beside what
// short_below and matmul::kSparse mean of values of either sign; asked by all lanes of a warp.
__device__ __forceinline__ bool may_have_few(const Product& p, const Tile& tile) {
    constexpr float kMany = 24.0f, kManyShared = 80.0f, kDense = 1.0f / 48;  // products that are not 0, and of all
    int of_x = 0, of_weight = 0;
    for (int i = threadIdx.x % 32; i < kTile; i += 32) {
        of_x += __ldcg(p.x.values + tile.of_x * kTile + i), of_weight += __ldcg(p.weight.values + tile.of_weight * kTile + i);
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        of_x += __shfl_xor_sync(0xffffffffu, of_x, lanes), of_weight += __shfl_xor_sync(0xffffffffu, of_weight, lanes);
    }
    const int rows = min(kTile, p.m - tile.of_x * kTile), columns = min(kTile, p.n - tile.of_weight * kTile);
    const auto depth = static_cast<float>(p.k), sums = static_cast<float>(rows * columns);
    const float many = is_shared_out(p) ? fmaxf(kManyShared, kDense * depth) : kMany;
    return static_cast<float>(of_x) * static_cast<float>(of_weight) < many * sums * depth;
}

// By a warp that has nothing else to do.
__device__ __forceinline__ void note_few(const Product& p) {
    for (int number = blockIdx.x; number < p.tiles(); number += gridDim.x) {
        if (may_have_few(p, tile_at(p, number))) *p.suspect = 1;
    }
}

__device__ __forceinline__ void add_bias(const Product& p, float (&values)[64], int first_column) {
    if (p.bias == nullptr) return;
    #pragma unroll
    for (int j = 0; j < 16; ++j) {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int column = first_column + 8 * j + i;
            const float bias = column < p.n ? p.bias[column] : 0.0f;
            values[4 * j + i] += bias, values[4 * j + 2 + i] += bias;
        }
    }
}

// What becomes of the sums of a tile that is computed anew, [8][8] of each thread (matmul::Corner), where y is stored.
struct StoreAnew {
    float* y;

    struct Shared {};
    __device__ __forceinline__ void operator()(const Product& p, const float (&sums)[8][8], const Tile& tile, Shared&) const {
        const matmul::Outcome out = {p.bias, y, 0, 0, 1, 1.0f, 1.0f};
        const int64_t first_row = static_cast<int64_t>(tile.of_x) * kTile, first_column = static_cast<int64_t>(tile.of_weight) * kTile;
        matmul::store_tile(out, sums, p.m, p.n, matmul::kWhole, 0, first_row, first_column, p.m);
    }

    // Of the tile's values as the tensor cores leave them, this thread's part.
    __device__ __forceinline__ bool is_finite(const Product& p, const Tile& tile) const {
        const int column = tile.of_weight * kTile + static_cast<int>(threadIdx.x) % kTile;
        const int past = column < p.n ? min(p.m, tile.of_x * kTile + kTile) : 0;
        float all = 0.0f;  // NaN where one is not
        #pragma unroll 16
        for (int row = tile.of_x * kTile + static_cast<int>(threadIdx.x) / kTile; row < past; row += matmul::kAnewThreads / kTile) {
            all = fmaf(__ldcg(y + static_cast<int64_t>(row) * p.n + column), 0.0f, all);
        }
        return all == 0.0f;
    }
};

// What becomes of the values of a finished tile: y is stored.
struct StoreTile {
    float* y;  // [m, n]

    __device__ __forceinline__ void operator()(const Product& p, float (&values)[64], const Place& at, int) const {
        const bool pairs = p.n % 2 == 0;
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = at.row + 8 * half;
            if (row >= p.m) continue;
            float* to = y + static_cast<int64_t>(row) * p.n;
            #pragma unroll
            for (int j = 0; j < 16; ++j) {
                const int column = at.column + 8 * j;
                const float2 two = {values[4 * j + 2 * half], values[4 * j + 2 * half + 1]};
                if (pairs && column < p.n) {
                    *reinterpret_cast<float2*>(to + column) = two;
                } else {
                    if (column < p.n) to[column] = two.x;
                    if (column + 1 < p.n) to[column + 1] = two.y;
                }
            }
        }
    }

    StoreAnew anew() const { return {y}; }
};

template <int PROMOTE, class Finish>
__device__ __forceinline__ void multiply_tiles(const Product& p, const Ring& ring, int group, const Finish& finish) {
    int stage = 0, taken = 0;
    uint32_t parity = 0;
    for (int number = blockIdx.x; number < p.tiles(); number += gridDim.x, ++taken) {
        float sum[64];
        float partial[64];
        #pragma unroll
        for (int i = 0; i < 64; ++i) sum[i] = partial[i] = 0.0f;
        for (int i = 0; i < p.stages; i += PROMOTE) {
            #pragma unroll
            for (int part = 0; part < PROMOTE; ++part) {
                barrier_wait(ring.full + stage, parity);
                matrix_begin();
                multiply_stage(partial, ring.stages + stage * kStageBytes, group, part == 0);
                matrix_wait(partial);
                barrier_arrive(ring.free + stage);
                if (++stage == kStages) {
                    stage = 0;
                    parity ^= 1;
                }
            }
            #pragma unroll
            for (int j = 0; j < 64; ++j) sum[j] = fmaf(partial[j], kCutOff, sum[j]);
        }
        const Tile tile = tile_at(p, number);
        const Exponents exponents = exponents_at(ring.exponents_of(taken), place_of(group * 64, 0));
        const Place at = place_of(tile.of_x * kTile + group * 64, tile.of_weight * kTile);
        unscale(sum, exponents);
        note_sizes(p, sum, exponents, at, tile.of_weight);
        add_bias(p, sum, at.column);
        finish(p, sum, at, tile.of_weight);
    }
}

// One block on an SM, which takes tiles in turn.
template <int PROMOTE, class Finish>
__global__ void __launch_bounds__(kThreads, 1)
    linear_fp32x3(const __grid_constant__ Product p, const __grid_constant__ Finish finish) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // elsewhere nobody calls it
    extern __shared__ unsigned char shared[];
    const Ring ring = ring_in(shared);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
            barrier_init(ring.full + stage);
            barrier_init(ring.free + stage, kConsumers * 128);
        }
        barriers_made();
    }
    __syncthreads();
    await_earlier();
    let_next_begin();  // it waits for this one's end
    const int group = threadIdx.x / 128;
    if (group == kConsumers) {
        if (threadIdx.x % 128 == 0) load_tiles(p, ring);
        if (threadIdx.x % 128 / 32 == 1) note_few(p);
    } else {
        multiply_tiles<PROMOTE>(p, ring, group, finish);
    }
#endif
}

template <int PROMOTE, class Finish>
cudaError_t multiply(const Product& p, const Finish& finish, int sms, cudaStream_t stream) {
    const auto kernel = linear_fp32x3<PROMOTE, Finish>;
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error != cudaSuccess) return error;
    return launched_with(kernel, static_cast<unsigned>(std::min(sms, p.tiles())), kThreads, kSharedBytes, stream, p, finish);
}

}  // namespace kernelwright::linear
