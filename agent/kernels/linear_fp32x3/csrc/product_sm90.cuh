// y = x * weight^T + bias with float accuracy from three fp16 products, on sm_90a.
//
// With both operands split (split_sm90.cuh), hi * hi + hi * lo + lo * hi omits lo * lo, 2^-24 of the product. All three go to
// one accumulator. (Ootomo and Yokota, 2022, scale the residual by 2^11 instead and need a second accumulator.)
//
// The tensor cores truncate when they add to the accumulator, which costs 8e-5 over K = 8192. So every PROMOTE * 64 of K the
// partial sums are added to a float accumulator, which rounds. Within a stage the small products come first, while there is
// nothing large to truncate them against. Truncation makes a stage's sum smaller, by a measured 0.75 (mixed signs) to 1.5
// (one sign) times 2^-23 of it; the factor kCutOff compensates.
//
// Blocks are persistent, one per SM, and take tiles of 128 x 128. One thread of the last warpgroup is the producer, which
// fills a ring of stages by bulk copies; the other warpgroups multiply 64 rows each. For [1024, 8192] * [8192, 8192]: 412
// GFLOP of fp16, 0.42 ms at 989 TFLOP/s; L2 traffic 512 tiles * 8.4 MB = 4.3 GB, 0.8 ms at 5.5 TB/s.
#pragma once

#include <algorithm>

#include "../../csrc/launched.cuh"
#include "../../matmul_fp32x3/csrc/anew.cuh"
#include "split_sm90.cuh"

namespace kernelwright::linear {

constexpr int kStageBytes = 2 * kOperandBytes;
constexpr int kStages = 3;
constexpr int kConsumers = 2;  // warpgroups of 64 rows, besides the producer
constexpr int kThreads = 128 * (kConsumers + 1);
constexpr int kBand = 8;       // rows of tiles per band
constexpr int kSlots = kStages + 1;  // slots for exponents: as many as tiles in flight
constexpr int kExponentBytes = kTile * static_cast<int>(sizeof(int));  // bytes of a tile's exponents, per operand
constexpr int kSharedBytes = kStages * kStageBytes + kAtomBytes + 2 * kStages * 8 + kSlots * 2 * kExponentBytes;

struct Product {
    Packed x, weight;
    const float* bias;  // [n], or null
    int m, n, k;
    int stages;         // stages along K, a multiple of PROMOTE
    // For the check after the product (anew_sm90.cuh): a flag that some tile is suspect, which is 0 before; the largest magnitude
    // in each row of a tile, [n_tiles, m_tiles * 128]; and the least magnitude of a row if all its products lose accuracy.
    int* suspect;
    float* sizes;
    float needed;

    __host__ __device__ int m_tiles() const { return (m + kTile - 1) / kTile; }
    __host__ __device__ int n_tiles() const { return (n + kTile - 1) / kTile; }
    __host__ __device__ int tiles() const { return m_tiles() * n_tiles(); }
};

// Factor of a stage's sum that compensates truncation.
constexpr float kCutOff = 1.0f + 1.0f / (1 << 23);

struct Tile {
    int of_x;
    int of_weight;
};

// Returns a tile by its number. Tiles are ordered in bands of kBand rows of tiles, down a band first. Concurrent blocks then cover
// a nearly square area and share the most in L2.
__device__ __forceinline__ Tile tile_at(const Product& p, int number) {
    const int band = number / (kBand * p.n_tiles());
    const int within = number - band * kBand * p.n_tiles();
    const int rows = min(kBand, p.m_tiles() - band * kBand);
    return {band * kBand + within % rows, within / rows};
}

// Ring of stages in shared memory. A tile's exponents are loaded with its first stage; after the sums the consumers would have to
// wait for them.
struct Ring {
    unsigned char* stages;  // memory of the stages, 1024-aligned
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

// Loads the exponents of 128 rows of x and of the weight, before the tile's first stage.
__device__ __forceinline__ void load_exponents(const Ring& ring, int tile, const int* of_x, const int* of_weight,
                                               uint64_t* full) {
    int* to = ring.exponents_of(tile);
    bulk_load(to, of_x, kExponentBytes, full);
    bulk_load(to + kTile, of_weight, kExponentBytes, full);
}

// Keeps the ring filled; run by the producer thread.
__device__ __forceinline__ void load_tiles(const Product& p, const Ring& ring) {
    const int64_t tile_bytes = static_cast<int64_t>(p.stages) * kOperandBytes;
    const uint64_t policy = evict_last();
    int stage = 0, taken = 0;
    uint32_t parity = 1;  // in the first round every stage is free
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

// Issues the three products of a stage for 64 rows of x.
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

// Position of a thread's sums in y: sum[4 * j + 2 * half + i] belongs to row `row` + 8 * half, column `column` + 8 * j + i.
struct Place {
    int row;
    int column;
};

// Exponents of this thread's rows and columns in a tile.
struct Exponents {
    const int* rows;
    const int* columns;
};

__device__ __forceinline__ Exponents exponents_at(const int* of_tile, const Place& place) {
    return {of_tile + place.row, of_tile + kTile + place.column};
}

// Returns sum * 2^-exponent, rounded once. 2^-exponent may underflow, so it is split into two factors; a result below their range
// is 0.
__device__ __forceinline__ float unscaled(float sum, int exponent) {
    const int both = max(254 - exponent, 2);
    const int first = both >> 1;
    return sum * __int_as_float(first << 23) * __int_as_float((both - first) << 23);
}

__device__ __forceinline__ Place place_of(int first_row, int first_column) {
    const int thread = threadIdx.x % 128;
    return {first_row + thread / 32 * 16 + thread % 32 / 4, first_column + thread % 4 * 2};
}

// Undoes the scaling of a tile's sums.
__device__ __forceinline__ void unscale(float (&sum)[64], const Exponents& exponents) {
    const int of_rows[2] = {exponents.rows[0], exponents.rows[8]};
    #pragma unroll
    for (int j = 0; j < 16; ++j) {
        const int2 two = *reinterpret_cast<const int2*>(exponents.columns + 8 * j);
        #pragma unroll
        for (int i = 0; i < 4; ++i) sum[4 * j + i] = unscaled(sum[4 * j + i], of_rows[i / 2] + (i % 2 == 0 ? two.x : two.y));
    }
}

// Returns the maximum over the four lanes that share a row.
__device__ __forceinline__ float row_largest(float mine) {
    mine = fmaxf(mine, __shfl_xor_sync(0xffffffffu, mine, 1));
    return fmaxf(mine, __shfl_xor_sync(0xffffffffu, mine, 2));
}

// Returns a lower bound of a row's rms as a share of its largest value; see matmul::share_of.
__device__ __forceinline__ float share_in(const Product& p, int of_weight) {
    return matmul::share_of(static_cast<float>(min(kTile, p.n - of_weight * kTile)));
}

// Notes the row sizes that the check after the product needs. Free of branches: with divergent lanes the compiler would move the
// descriptors of the whole loop out of uniform registers, which makes the kernel a sixth slower.
__device__ __forceinline__ void note_sizes(const Product& p, const float (&values)[64], const Exponents& exponents, const Place& at,
                                           int of_weight) {
    float sizes[2] = {0.0f, 0.0f};
    int least = kNothing;  // smallest exponent, that of the column with the largest values
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

// Returns true if an SGEMM would use split-K, because tiles are few.
__device__ __forceinline__ bool is_shared_out(const Product& p) { return p.tiles() <= 2 * static_cast<int>(gridDim.x); }

// Returns true if a tile's sums have so few nonzero products on average that the check after the product has to follow some of
// nonzero products, and their share of all products
__device__ __forceinline__ bool may_have_few(const Product& p, const Tile& tile) {
    constexpr float kMany = 24.0f, kManyShared = 80.0f, kDense = 1.0f / 48;  // numbers of nonzero products, and their share of all products
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

// Flags the tiles that `may_have_few` as suspect. An otherwise idle warp calls it.
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

// Stores a recomputed tile of y from each thread's sums [8][8] (matmul::Corner).
struct StoreAnew {
    float* y;

    struct Shared {};
    __device__ __forceinline__ void operator()(const Product& p, const float (&sums)[8][8], const Tile& tile, Shared&) const {
        const matmul::Outcome out = {p.bias, y, 0, 0, 1, 1.0f, 1.0f};
        const int64_t first_row = static_cast<int64_t>(tile.of_x) * kTile, first_column = static_cast<int64_t>(tile.of_weight) * kTile;
        matmul::store_tile(out, sums, p.m, p.n, matmul::kWhole, 0, first_row, first_column, p.m);
    }

    // Returns true if this thread's share of the values stored by the tensor cores is finite.
    __device__ __forceinline__ bool is_finite(const Product& p, const Tile& tile) const {
        const int column = tile.of_weight * kTile + static_cast<int>(threadIdx.x) % kTile;
        const int past = column < p.n ? min(p.m, tile.of_x * kTile + kTile) : 0;
        float all = 0.0f;  // NaN if any value is not finite
        #pragma unroll 16
        for (int row = tile.of_x * kTile + static_cast<int>(threadIdx.x) / kTile; row < past; row += matmul::kAnewThreads / kTile) {
            all = fmaf(__ldcg(y + static_cast<int64_t>(row) * p.n + column), 0.0f, all);
        }
        return all == 0.0f;
    }
};

// Stores a finished tile of y.
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

// Computes the tiles of a persistent block, one block per SM.
template <int PROMOTE, class Finish>
__global__ void __launch_bounds__(kThreads, 1)
    linear_fp32x3(const __grid_constant__ Product p, const __grid_constant__ Finish finish) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // this kernel is never called on other architectures
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
    let_next_begin();  // the next kernel waits for the end of this kernel
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
