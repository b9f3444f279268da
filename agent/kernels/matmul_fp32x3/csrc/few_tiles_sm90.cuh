// Products of at most one tile per two SMs on sm_90a, after a split in one launch (split_once_sm90.cuh). A cluster of two blocks
// multiplies a tile of 128 x 128, 64 rows per block. Each block loads half of b's packed tile and multicasts it to both.
//
// The two warpgroups of a block take stages in turn, so a block has all its sums without waiting for other blocks. The split's counts of
// small values are added up while the first stages load. A block checks its own sums if needed, since another launch would take
// longer.
#pragma once

#include "anew_sm90.cuh"
#include "split_once_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kTogether = 2;    // blocks per cluster
constexpr int kBlockRows = kTile / kTogether;
constexpr int kFewStages = 4;
constexpr int kBlockOfA = kOperandBytes / kTogether;    // hi and lo of a block's rows
constexpr int kFewFactors = kBlockOfA + kOperandBytes;  // offset of a's factors in a stage
constexpr int kFewStageBytes = kFewFactors + matrix::kAtomBytes;
static_assert(sizeof(Spans) <= kFewStages * kFewStageBytes, "what is computed anew takes the stages' place");
constexpr int kFewSharedBytes = kFewStages * kFewStageBytes + matrix::kAtomBytes + (2 * kFewStages + 2) * 8;

// The unit of a cluster, and which half of the tile's rows a block has.
struct Share {
    Unit unit;
    linear::Tile tile;
    int batch, begin, end;
    int half;

    __device__ __forceinline__ explicit Share(const Product& p) {
        unit = {static_cast<int>(blockIdx.x) / 2, 0, 0, p.tiles.stages};
        half = blockIdx.x % 2;
        batch = p.batch_of(unit.tile), tile = p.place_of(unit.tile);
        begin = p.first_of(unit, tile), end = p.past_of(unit, tile);
    }
};

// Keeps the ring filled; run by the producer thread. Addresses are computed before the split ends.
__device__ __forceinline__ void load_few(const Product& p, const Ring& ring) {
    constexpr int kPiece = kOperandBytes / kTogether, kFactors = kBlockRows * static_cast<int>(sizeof(float));
    const Share share(p);
    const int64_t stages = p.tiles.stages;
    const unsigned char* a = p.a + share.batch * p.a_bytes + (share.tile.of_x * stages + share.begin) * kPackedBytes;
    const unsigned char* b = p.b + share.batch * p.b_bytes + (share.tile.of_weight * stages + share.begin) * kOperandBytes;
    asm volatile("" : "+l"(a), "+l"(b));  // keeps the compiler from computing the addresses later
    await_earlier();
    Turn turn = {0, 1};  // in the first round every stage is free
    for (int i = share.begin; i < share.end; ++i, turn.next(kFewStages), a += kPackedBytes, b += kOperandBytes) {
        unsigned char* to = ring.stages + turn.stage * kFewStageBytes;
        uint64_t* full = ring.full + turn.stage;
        matrix::barrier_wait(ring.free + turn.stage, turn.parity);
        matrix::barrier_expect(full, kFewFactors + 2 * kFactors);
        sm90::bulk_load_for_cluster(to + kBlockOfA + share.half * kPiece, b + share.half * kPiece, kPiece, full, (1 << kTogether) - 1);
        #pragma unroll
        for (int part = 0; part < 2; ++part) {  // hi and lo, and the factors of either half stage
            matrix::bulk_load(to + part * kBlockOfA / 2, a + part * kHalfBytes + share.half * (kBlockOfA / 2), kBlockOfA / 2, full);
            matrix::bulk_load(to + kFewFactors + part * kFactors, a + kOperandBytes + (part * 2 + share.half) * kFactors, kFactors,
                              full);
        }
    }
}

// Sums every other stage, starting with stage `group`. While one warpgroup adds, the other uses the tensor cores.
template <bool ALL>
__device__ __forceinline__ void multiply_few(const Ring& ring, const Share& share, int group, float (&sum)[64]) {
    float first[64], second[64];
    #pragma unroll
    for (int i = 0; i < 64; ++i) sum[i] = first[i] = second[i] = 0.0f;
    Turn turn = {0, 0};
    if (group > 0) turn.next(kFewStages);
    const int row = linear::place_of(0, 0).row, other = 1 - group;
    if (group > 0 && share.begin < share.end) give_turn_to(other);
    for (int i = share.begin + group; i < share.end; i += kConsumers) {
        const unsigned char* stage = ring.stages + turn.stage * kFewStageBytes;
        const float* factors = reinterpret_cast<const float*>(stage + kFewFactors) + row;
        matrix::barrier_wait(ring.full + turn.stage, turn.parity);
        const float rows[2][2] = {{factors[0], factors[8]}, {factors[kBlockRows], factors[kBlockRows + 8]}};
        await_turn(group);
        matrix::matrix_begin();
        multiply_half<ALL, kBlockOfA / 2>(first, stage, stage + kBlockOfA);
        multiply_half<ALL, kBlockOfA / 2>(second, stage + 64, stage + kBlockOfA + 64);
        if (i + 1 < share.end) give_turn_to(other);
        sm90::products_done<1>(first);
        add(sum, first, rows[0]);
        sm90::products_done<0>(second);
        __syncwarp();
        for (int to = 0; to < kTogether; ++to) sm90::barrier_arrive_at(ring.free + turn.stage, to);
        add(sum, second, rows[1]);
        for (int step = 0; step < kConsumers; ++step) turn.next(kFewStages);
    }
}

__device__ __forceinline__ void consumers_meet() { sm90::some_meet<1, 128 * kConsumers>(); }

// Checks the sums of a block's rows of its tile.
__device__ __noinline__ void hold_few(const Product& p, bool sparse, unsigned char* memory) {
    __shared__ AnewShared shared;
    consumers_meet();  // the block's rows have been stored
    const Share share(p);
    const Band band = band_of(p, share.batch, share.tile, share.half * kBlockRows, kBlockRows);
    auto& spans = *reinterpret_cast<Spans*>(memory);
    if (band.rows > 0) hold<kBlockRows / 16>(p, band, true, sparse, shared, spans, [] { consumers_meet(); });
}

// Flags in shared memory behind the ring: whether the operands are sparse, set by an otherwise idle warp, and whether any warp's sums
// are small.
struct Told {
    uint64_t* known;
    int* sparse;
    int* small;

    __device__ __forceinline__ explicit Told(const Ring& ring)
        : known(ring.free + kFewStages), sparse(reinterpret_cast<int*>(known + 1)), small(sparse + 1) {}
};

__device__ __forceinline__ void tell_sparse(const Product& p, const Told& told) {
    int found = 0;
    const int blocks = static_cast<int>(split_blocks(p.plain)), lane = threadIdx.x % 32;
    #pragma unroll 8
    for (int i = lane; i < blocks; i += 32) found += __ldcg(p.plain.noted + i);
    for (int lanes = 16; lanes > 0; lanes /= 2) found += __shfl_xor_sync(0xffffffffu, found, lanes);
    if (lane > 0) return;
    *told.sparse = are_sparse(p.plain.a, p.plain.b, found) ? 1 : 0;
    matrix::barrier_arrive(told.known);
}

// Sets the flag `small` if a warp's sums are small.
__device__ __forceinline__ void note_small(const Product& p, const Ring& ring, const Share& share, const float (&sum)[64], int group) {
    if (share.begin + group >= share.end || p.tiles.n - share.tile.of_weight * kTile < 32) return;
    const auto* factors = reinterpret_cast<const float*>(ring.stages + group * kFewStageBytes + kFewFactors);
    const int row = linear::place_of(0, 0).row;
    if (are_small(sum, {factors[row], factors[row + 8]})) *Told(ring).small = 1;
}

// Gives each warpgroup the other's sums for half of the columns, so that it has the complete sums of that half.
__device__ __forceinline__ void exchange(unsigned char* memory, const float (&sum)[64], int group, float (&both)[32]) {
    auto* of_group = reinterpret_cast<float4*>(memory) + threadIdx.x % 128;
    consumers_meet();  // all threads are done with the stages
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        float four[4];
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float first = sum[4 * i + j], second = sum[32 + 4 * i + j];
            both[4 * i + j] = group == 0 ? first : second;
            four[j] = group == 0 ? second : first;
        }
        of_group[(group * 8 + i) * 128] = {four[0], four[1], four[2], four[3]};
    }
    consumers_meet();
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float4 four = of_group[((1 - group) * 8 + i) * 128];
        both[4 * i] += four.x, both[4 * i + 1] += four.y, both[4 * i + 2] += four.z, both[4 * i + 3] += four.w;
    }
}

// Stores the half of the columns that the warpgroup has; four lanes store 32 bytes of a row at a time.
template <bool ALL>
__device__ __forceinline__ void store_halves(const Product& p, const Ring& ring, const Share& share, const float (&sum)[64], int group) {
    const linear::Place at = linear::place_of(share.tile.of_x * kTile + share.half * kBlockRows,
                                              share.tile.of_weight * kTile + group * (kTile / 2));
    int2 exponents[8];  // these loads overlap with the exchange
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
        exponents[j] = __ldcg(reinterpret_cast<const int2*>(p.exponents + share.batch * p.b_rows + at.column + 8 * j));
    }
    note_small(p, ring, share, sum, group);
    float both[32];
    exchange(ring.stages, sum, group, both);
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        const int2 two = exponents[i / 4];
        both[i] = linear::unscaled(both[i], (i % 2 == 0 ? two.x : two.y) - kMargin);
    }
    finish_unit<ALL>(p, both, share.batch, at);
    store_sums(p, both, share.batch, at, (share.tile.of_weight + 1) * kTile <= p.tiles.n, p.out.y);
}

constexpr int kPitch = kTile + 8;  // floats per row of sums; eight rows hit different banks

// Stores whole rows with the adjacent lanes of a warp. Used at edges, and where 32 bytes would straddle two sectors.
__device__ __forceinline__ void store_rows(const Product& p, const Ring& ring, const Share& share, const float (&sum)[64], int group) {
    constexpr int kCount = kTile / 32;  // columns per lane
    const linear::Place place = linear::place_of(group * kBlockRows, 0);
    float* sums = reinterpret_cast<float*>(ring.stages);  // [2][kBlockRows][kPitch]
    float* to = sums + place.row * kPitch + place.column;
    const int lane = threadIdx.x % 32, n = p.tiles.n;
    const int first_row = share.tile.of_x * kTile + share.half * kBlockRows, first_column = share.tile.of_weight * kTile + lane;
    int exponents[kCount];
    #pragma unroll
    for (int j = 0; j < kCount; ++j) exponents[j] = __ldcg(p.exponents + share.batch * p.b_rows + first_column + 32 * j) - kMargin;
    note_small(p, ring, share, sum, group);
    consumers_meet();  // all threads are done with the stages
    #pragma unroll
    for (int i = 0; i < 32; ++i) *reinterpret_cast<float2*>(to + i % 2 * 8 * kPitch + i / 2 * 8) = {sum[2 * i], sum[2 * i + 1]};
    consumers_meet();
    const int rows = min(kBlockRows, p.tiles.m - first_row);
    const bool is_plain = p.out.c == nullptr && p.y_part == kWhole;
    #pragma unroll 2
    for (int i = threadIdx.x / 32; i < rows; i += 4 * kConsumers) {
        const float* from = sums + i * kPitch + lane;
        const int row = first_row + i;
        float* y = p.out.y + (static_cast<int64_t>(share.batch) * p.tiles.m + row) * n + first_column;
        #pragma unroll
        for (int j = 0; j < kCount; ++j) {
            const int column = first_column + 32 * j;
            float v = linear::unscaled(from[32 * j] + from[kBlockRows * kPitch + 32 * j], exponents[j]);
            if (is_plain) {
                v *= p.out.alpha;
            } else if (column < n) {
                v = is_there(p.y_part, row, column) ? finished(p.out, v, share.batch, row, column) : 0.0f;
            }
            if (column < n) y[32 * j] = v;
        }
    }
}

template <bool ALL, bool BY_ROWS>
__device__ __forceinline__ void multiply_and_store(const Product& p, const Ring& ring, int group) {
    const Share share(p);
    const Told told(ring);
    float sum[64];
    await_earlier();
    multiply_few<ALL>(ring, share, group, sum);
    sm90::cluster_arrive();
    if (BY_ROWS) {
        store_rows(p, ring, share, sum, group);
    } else {
        store_halves<ALL>(p, ring, share, sum, group);
    }
    matrix::barrier_wait(told.known, 0);
    const bool sparse = *told.sparse != 0;
    if (sparse || *told.small != 0) hold_few(p, sparse, ring.stages);
}

template <bool ALL, bool BY_ROWS>
__global__ void __launch_bounds__(kThreads, 1) matmul_few(const __grid_constant__ Product p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // this kernel is never called on other architectures
    extern __shared__ unsigned char shared[];
    const Ring ring = ring_in(shared, kFewStages, kFewStageBytes);
    const Told told(ring);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kFewStages; ++stage) {
            matrix::barrier_init(ring.full + stage);
            matrix::barrier_init(ring.free + stage, kTogether * 128);  // the threads of one warpgroup of each block
        }
        matrix::barrier_init(told.known);
        *told.small = 0;
        matrix::barriers_made();
    }
    sm90::cluster_meet();  // all barriers of the cluster are initialised
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32;
    if (group == kConsumers) {
        sm90::give_registers<kLoaderRegisters>();
        if (threadIdx.x % 128 == 0) load_few(p, ring);
        __syncwarp();
        if (warp == 4 * kConsumers + 1) {
            await_earlier();
            let_next_begin();
            tell_sparse(p, told);
        }
        __syncwarp();
        sm90::cluster_arrive();
    } else {
        sm90::take_registers<kConsumerRegisters>();
        multiply_and_store<ALL, BY_ROWS>(p, ring, group);
    }
    sm90::cluster_wait();  // until then the other block's copies and arrivals still target this block
#endif
}

// Returns true if all clusters fit the GPU at once and this path is faster than the general one. The general path has cost `cost` (Cut)
// plus more launches for the split and the check. A stage of half a tile takes half as long as that of a tile.
inline bool is_few(const Operands& both, int64_t tiles, int64_t sms, double cost) {
    constexpr double kStage = 0.5, kLaunches = 5.0;
    return kTogether * tiles <= sms / kTogether * kTogether && splits_once(both.b) &&
           kStage * static_cast<double>(both.a.stages) + kStart < cost + kLaunches;
}

template <bool ALL, bool BY_ROWS>
cudaError_t launch_few(const Product& p, cudaStream_t stream) {
    const auto kernel = matmul_few<ALL, BY_ROWS>;
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   kFewSharedBytes);
    if (error != cudaSuccess) return error;
    return launched_as(kernel, kTogether, static_cast<unsigned>(kTogether * p.cut.tiles), kThreads, kFewSharedBytes, stream, p);
}

// Returns true if results are stored row by row. With ALL that is slower, as sums are few and any may have to be recomputed.
inline bool by_rows(const Product& p) { return !p.all && p.tiles.n % kTile != 0; }

inline cudaError_t few_tiles(const Product& p, cudaStream_t stream) {
    const cudaError_t error = split_once(p.plain, stream);
    if (error != cudaSuccess) return error;
    if (p.all) return launch_few<true, false>(p, stream);
    return by_rows(p) ? launch_few<false, true>(p, stream) : launch_few<false, false>(p, stream);
}

}  // namespace kernelwright::matmul
