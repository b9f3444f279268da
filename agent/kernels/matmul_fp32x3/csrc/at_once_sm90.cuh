// Products of at most one tile for two SMs, in one launch on sm_90a: every block splits its share of both operands, all meet, and
// a cluster of two multiplies a tile of 128 x 128, 64 rows each, loading half of b for both.
//
// A launch costs 2 to 3 us, and of the 44 us that three of them took at 1024 cubed the tensor cores needed 8. Here b's values
// stay in registers from the look at their columns on, and a is split meanwhile. Two warpgroups take stages
// in turn, so that the sums are all there when both are done, with nothing to wait for from other blocks.
#pragma once

#include "anew_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kTogether = 2;    // blocks of a cluster
constexpr int kBlockRows = kTile / kTogether;
constexpr int kOnceStages = 4;
constexpr int kBlockOfA = kOperandBytes / kTogether;     // hi and lo of a block's rows
constexpr int kOnceFactors = kBlockOfA + kOperandBytes;  // where a's factors stand in a stage
constexpr int kOnceStageBytes = kOnceFactors + matrix::kAtomBytes;
constexpr int kOnceSharedBytes = kOnceStages * kOnceStageBytes + matrix::kAtomBytes + 2 * kOnceStages * 8;
constexpr int kOnceThreads = 512;                        // that split; then half of them multiply, and another one loads
constexpr int kOnceConsumerRegisters = 216;
constexpr int kMeetings = 2;

using OnceEights = Eights<kOnceThreads>;

// By one thread, for what others of its block stored before they met.
__device__ __forceinline__ void arrive_for_others(int* meeting) {
    __threadfence();
    atomicAdd(meeting, 1);
}

__device__ __forceinline__ void wait_for_all(const int* meeting) {
    while (sm90::load_acquire(meeting) < static_cast<int>(gridDim.x)) {
    }
}

// What a stage of a tile of b has for its columns.
__device__ __forceinline__ void note_largest(const Operand& of, const Portion& at, const float (&v)[OnceEights::kValues]) {
    const OnceEights eights = {of.by_rows};
    float largest[OnceEights::kCount];
    find_largest<kOnceThreads>(largest, v, of.by_rows);
    #pragma unroll
    for (int i = 0; i < OnceEights::kCount; ++i) {
        if (eights.piece(i) % 4 == 0) atomicMax(of.largest + at.number * kTile + eights.row(i), __float_as_int(largest[i]));
    }
}

// Of a, whose first values have been loaded.
__device__ __forceinline__ void split_share_of_a(const Operand& a, Packed& tile, float (&v)[OnceEights::kValues]) {
    for (int64_t block = blockIdx.x; block < a.blocks(); block += gridDim.x) {
        const Portion at(a, block);
        if (block >= gridDim.x) {
            load<kOnceThreads>(v, a, at);
            __syncthreads();  // the one before has been stored
        }
        note_sparse(a, pack_as<kOnceThreads, false>(tile, a, at, v));
        __syncthreads();
        store<kOnceThreads>(tile, a, block);
    }
}

// A block has at most one tile of one stage of b, whose values stay in registers until all know the largest of its columns;
// meanwhile a is split.
template <bool ALL>
__device__ __forceinline__ void split_shares(const Product& p, Packed* tiles) {
    const Operand &a = p.plain.a, &b = p.plain.b;
    const bool has_one = blockIdx.x < b.blocks();
    const Portion at(b, blockIdx.x);
    float v[OnceEights::kValues], of_a[OnceEights::kValues];
    if (has_one) load<kOnceThreads>(v, b, at);
    if (blockIdx.x < a.blocks()) load<kOnceThreads>(of_a, a, Portion(a, blockIdx.x));
    if (has_one) note_largest(b, at, v);
    __syncthreads();
    if (threadIdx.x == 0) arrive_for_others(p.ended);
    split_share_of_a(a, tiles[0], of_a);
    if (has_one) {
        Packed& tile = tiles[1];
        if (threadIdx.x == 0) wait_for_all(p.ended);
        __syncthreads();
        if (threadIdx.x < kTile) {
            const int64_t column = at.number * kTile + threadIdx.x;
            tile.exponents[threadIdx.x] = exponent_for(__ldcg(b.largest + column));
            if (at.stage == 0) b.exponents[column] = tile.exponents[threadIdx.x];
        }
        __syncthreads();
        note_sparse(b, pack_as<kOnceThreads, !ALL>(tile, b, at, v));
        __syncthreads();
        store<kOnceThreads>(tile, b, blockIdx.x);
    }
    sm90::all_stores_made();
    __syncthreads();
    if (threadIdx.x == 0) arrive_for_others(p.ended + 1);
}

// Where in its tile a block is, and what its cluster does.
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

__device__ __forceinline__ void load_at_once(const Product& p, const Ring& ring) {
    constexpr int kPiece = kOperandBytes / kTogether, kFactors = kBlockRows * static_cast<int>(sizeof(float));
    const Share share(p);
    const int64_t stages = p.tiles.stages;
    const unsigned char* a = p.a + share.batch * p.a_bytes + (share.tile.of_x * stages + share.begin) * kPackedBytes;
    const unsigned char* b = p.b + share.batch * p.b_bytes + (share.tile.of_weight * stages + share.begin) * kOperandBytes;
    Turn turn = {0, 1};  // the first round finds every stage free
    wait_for_all(p.ended + 1);
    sm90::all_stores_made();
    for (int i = share.begin; i < share.end; ++i, turn.next(kOnceStages), a += kPackedBytes, b += kOperandBytes) {
        unsigned char* to = ring.stages + turn.stage * kOnceStageBytes;
        uint64_t* full = ring.full + turn.stage;
        matrix::barrier_wait(ring.free + turn.stage, turn.parity);
        matrix::barrier_expect(full, kOnceFactors + 2 * kFactors);
        sm90::bulk_load_for_cluster(to + kBlockOfA + share.half * kPiece, b + share.half * kPiece, kPiece, full, (1 << kTogether) - 1);
        #pragma unroll
        for (int part = 0; part < 2; ++part) {  // hi and lo, the factors of either half
            matrix::bulk_load(to + part * kBlockOfA / 2, a + part * kHalfBytes + share.half * (kBlockOfA / 2), kBlockOfA / 2, full);
            matrix::bulk_load(to + kOnceFactors + part * kFactors, a + kOperandBytes + (part * 2 + share.half) * kFactors, kFactors,
                              full);
        }
    }
}

// The sums of every other stage, beginning with the one of this warpgroup's number: while one warpgroup adds up what is left,
// the other one has the tensor cores.
template <bool ALL>
__device__ __forceinline__ void multiply_at_once(const Ring& ring, const Share& share, int group, float (&sum)[64]) {
    float first[64], second[64];
    #pragma unroll
    for (int i = 0; i < 64; ++i) sum[i] = first[i] = second[i] = 0.0f;
    Turn turn = {0, 0};
    if (group > 0) turn.next(kOnceStages);
    const int row = linear::place_of(0, 0).row;
    for (int i = share.begin + group; i < share.end; i += kConsumers) {
        const unsigned char* stage = ring.stages + turn.stage * kOnceStageBytes;
        const float* factors = reinterpret_cast<const float*>(stage + kOnceFactors) + row;
        matrix::barrier_wait(ring.full + turn.stage, turn.parity);
        const float rows[2][2] = {{factors[0], factors[8]}, {factors[kBlockRows], factors[kBlockRows + 8]}};
        matrix::matrix_begin();
        multiply_half<ALL, kBlockOfA / 2>(first, stage, stage + kBlockOfA);
        multiply_half<ALL, kBlockOfA / 2>(second, stage + 64, stage + kBlockOfA + 64);
        sm90::products_done<1>(first);
        add(sum, first, rows[0]);
        sm90::products_done<0>(second);
        __syncwarp();
        for (int to = 0; to < kTogether; ++to) sm90::barrier_arrive_at(ring.free + turn.stage, to);
        add(sum, second, rows[1]);
        for (int step = 0; step < kConsumers; ++step) turn.next(kOnceStages);
    }
}

__device__ __forceinline__ void consumers_meet() { sm90::some_meet<1, 128 * kConsumers>(); }

// A block's rows of its tile.
__device__ __noinline__ void hold_at_once(const Product& p, bool sparse) {
    __shared__ AnewShared shared;
    consumers_meet();  // they have been stored
    const Share share(p);
    const Band band = band_of(p, share.batch, share.tile, share.half * kBlockRows, kBlockRows);
    if (band.rows > 0) hold(p, band, true, sparse, shared, [] { consumers_meet(); });
}

// Each warpgroup gets the other's sums of half of the columns, and has those of the whole depth.
__device__ __forceinline__ void exchange(unsigned char* memory, const float (&sum)[64], int group, float (&both)[32]) {
    auto* of_group = reinterpret_cast<float4*>(memory) + threadIdx.x % 128;
    consumers_meet();  // nobody reads the stages any more
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

template <bool ALL>
__device__ __forceinline__ void multiply_and_store(const Product& p, const Ring& ring, int group, int& small) {
    const Share share(p);
    float sum[64], both[32];
    multiply_at_once<ALL>(ring, share, group, sum);
    if (share.begin + group < share.end && p.tiles.n - share.tile.of_weight * kTile >= 32) {
        const unsigned char* stage = ring.stages + group * kOnceStageBytes;  // the last that this group had there
        const auto* factors = reinterpret_cast<const float*>(stage + kOnceFactors) + linear::place_of(0, 0).row;
        if (are_small(sum, {factors[0], factors[8]})) small = 1;
    }
    exchange(ring.stages, sum, group, both);
    const linear::Place at = linear::place_of(share.tile.of_x * kTile + share.half * kBlockRows,
                                              share.tile.of_weight * kTile + group * (kTile / 2));
    unscale(p, both, share.batch, at.column);
    finish_unit<ALL>(p, both, share.batch, at);
    store_sums(p, both, share.batch, at, (share.tile.of_weight + 1) * kTile <= p.tiles.n, p.out.y);
    const bool sparse = are_sparse(p.plain.a, p.plain.b, sm90::load_acquire(p.plain.b.sparse));
    if (sparse || small != 0) hold_at_once(p, sparse);
}

template <bool ALL>
__global__ void __launch_bounds__(kOnceThreads, 1) matmul_at_once(const __grid_constant__ Product p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // elsewhere nobody calls it
    extern __shared__ unsigned char shared[];
    __shared__ int small;  // whether a warp's sums are
    const Ring ring = ring_in(shared, kOnceStages, kOnceStageBytes);
    if (threadIdx.x == 0) {
        small = 0;
        for (int stage = 0; stage < kOnceStages; ++stage) {
            matrix::barrier_init(ring.full + stage);
            matrix::barrier_init(ring.free + stage, kTogether * 128);  // the threads of one warpgroup of each block
        }
        matrix::barriers_made();
    }
    __syncthreads();
    split_shares<ALL>(p, reinterpret_cast<Packed*>(ring.stages));
    const bool has_tile = blockIdx.x < kTogether * p.cut.tiles;
    const int group = threadIdx.x / 128;
    if (group >= kConsumers) {
        sm90::give_registers<kLoaderRegisters>();
        sm90::cluster_meet();  // the stages are free, and their barriers there
        if (has_tile && threadIdx.x == 128 * kConsumers) load_at_once(p, ring);
        __syncwarp();
    } else {
        sm90::take_registers<kOnceConsumerRegisters>();
        sm90::cluster_meet();  // the stages are free, and their barriers there
        if (has_tile) multiply_and_store<ALL>(p, ring, group, small);
    }
    sm90::cluster_meet();  // the other block's copies and arrivals come here until then
#endif
}

// Whether all SMs have room for what there is, at most one tile for two of them and one of a stage of b for each, and whether
// that is faster than `cost` of the product alone (Cut) with a look at b and a split before it. On an H200 a stage takes 0.7 us
// here, and the launches that are not made some 8 us in all.
inline bool is_at_once(const Operands& both, int64_t tiles, int64_t sms, double cost) {
    constexpr double kStage = 0.7, kSaved = 7.5;
    const int64_t blocks = sms / kTogether * kTogether;
    return kTogether * tiles <= blocks && both.b.blocks() <= blocks && both.a.blocks() <= 2 * blocks &&
           kStage * static_cast<double>(both.a.stages) < cost + kSaved;
}

// As many as are needed to split, of those that are there at once: all meet.
inline int64_t blocks_at_once(const Operands& both, int64_t tiles, int64_t sms) {
    const int64_t needed = std::max({kTogether * tiles, both.a.blocks(), both.b.blocks()});
    return std::min(ceil_div(needed, kTogether), sms / kTogether) * kTogether;
}

template <bool ALL>
cudaError_t launch_at_once(const Product& p, int64_t sms, cudaStream_t stream) {
    const auto kernel = matmul_at_once<ALL>;
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 kOnceSharedBytes);
    if (error != cudaSuccess) return error;
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = kTogether;
    attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
    attributes[1].id = cudaLaunchAttributeCooperative;
    attributes[1].val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(blocks_at_once(p.plain, p.cut.tiles, sms)));
    config.blockDim = dim3(kOnceThreads);
    config.dynamicSmemBytes = kOnceSharedBytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = 2;
    return cudaLaunchKernelEx(&config, kernel, p);
}

inline cudaError_t at_once(const Product& p, int64_t sms, cudaStream_t stream) {
    // The columns' largest values and, behind them, the counters.
    const auto bytes = reinterpret_cast<const char*>(p.ended + kMeetings) - reinterpret_cast<const char*>(p.plain.b.largest);
    const cudaError_t error = cudaMemsetAsync(p.plain.b.largest, 0, static_cast<size_t>(bytes), stream);
    if (error != cudaSuccess) return error;
    return p.all ? launch_at_once<true>(p, sms, stream) : launch_at_once<false>(p, sms, stream);
}

}  // namespace kernelwright::matmul
