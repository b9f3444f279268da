// Forward of groups that are too large for one block, with one read and one write: a team of blocks holds a group.
//
// The chip holds 33 MB in registers and 30 MB in shared memory; a group of 8 MiB is 190 KB on each of 44 SMs, so three
// teams fill the chip. What earlier attempts lost was the time between the last load of a group and its first store,
// when a team waits for each other's sums and memory for the team. Here it always has work: a group goes on from shared
// memory into registers as it is summed (HELD = 6 chunks of 2 KB per warp), which frees the ring at once for the whole
// next group. While a team waits (2 us) and stores, its next 190 KB per SM are on their way.
//
//   Little: 4.3 TB/s * 1 us = 4.3 MB in flight = 33 KB on each of 132 SMs; in flight here: up to 192 KB.
//   A turn of one SM at the copy rate: 380 KB / 32.6 KB/us = 11.7 us. What it does itself, one after the other: shared
//   memory to registers 192 KB at 128 B/clock = 0.9 us, exchange 2 us, stores 192 KB at 64 B/clock = 1.8 us.
//   Loads are issued at the start of a turn and have 5.9 us at least to arrive, so 7 us are slack.
//
// With HELD < 6 the other chunks stay in the ring until they are stored, and their slots are refilled only then: less
// is in flight at the exchange, and registers are free for activations. HELD = 0 is the plain ring.
//
// Warps share nothing but the sums: each has its own ring of 7 slots, its own barriers, and its lane 0 issues the
// copies. A chunk is one bulk copy. The warps of a team take chunks in turn, so a team reads and writes 1.4 MB at a
// time in order.
#pragma once

#include "activation.cuh"
#include "elements.cuh"
#include "portable_forward.cuh"
#include "sm90_exchange.cuh"
#include "sums.cuh"

namespace kernelwright::group_norm::sm90 {

constexpr int kChunkBytes = 2048;
constexpr int kShare = 6;          // chunks of a group that a warp takes, at most
constexpr int kSlots = 7;           // slots of a warp
constexpr int kLoads = kChunkBytes / 16 / kWarp;

// How the groups are shared out. Team t takes rows t, t + teams, ...
struct Team {
    int teams;
    int members;      // blocks of a team
    int chunks;       // of a group; the last may be cut
    int64_t bytes;    // of a group
    double share;     // 1 / elements of a group: a division would be a call, for which the held registers make way
};

constexpr int ring_bytes(int threads) { return threads / kWarp * kSlots * (kChunkBytes + static_cast<int>(sizeof(uint64_t))); }

// One warp's chunks in the order in which it takes them: those of its team's first row, of the next row, ...
struct Walk {
    int row;
    int index;     // chunk of the row, divided by the team's warps
    int slot;
    uint32_t parity;
};

__device__ __forceinline__ void advance(Walk& walk, int chunks, int teams) {
    if (++walk.index == chunks) {
        walk.index = 0;
        walk.row += teams;
    }
    if (++walk.slot == kSlots) {
        walk.slot = 0;
        walk.parity ^= 1;
    }
}

// Bytes of the chunk that lane packs may use: 2048, or what is left of the group.
__device__ __forceinline__ int chunk_bytes(const Team& team, int chunk) {
    const int64_t left = team.bytes - int64_t{chunk} * kChunkBytes;
    return static_cast<int>(left < kChunkBytes ? left : kChunkBytes);
}

// One warp and its ring. Of STREAMS tensors it takes the same chunks, in turn.
template <int STREAMS>
struct Warp {
    const unsigned char* tensors[STREAMS];
    unsigned char* ring;
    uint64_t* barriers;
    int rows;
    int worker, workers;   // this warp among those of its team
    int chunks;            // that it takes of each row of each tensor
    uint64_t policy;
    Walk next;             // to be loaded

    __device__ __forceinline__ int chunk_at(int index) const { return index / STREAMS * workers + worker; }

    // By lane 0: the next chunk into the slot that has just been read.
    __device__ __forceinline__ void load(const Team& team) {
        if (next.row >= rows) return;
        const int chunk = chunk_at(next.index);
        const int64_t begin = int64_t{chunk} * kChunkBytes;
        const uint32_t bytes = chunk_bytes(team, chunk);
        const unsigned char* tensor = tensors[0];
        if (STREAMS == 2 && next.index % 2 == 1) tensor = tensors[STREAMS - 1];
        barrier_expect(barriers + next.slot, bytes);
        bulk_load(ring + next.slot * kChunkBytes, tensor + next.row * team.bytes + begin, bytes, barriers + next.slot,
                  policy);
        advance(next, STREAMS * chunks, team.teams);
    }
};

// This warp's part; the tensors are the caller's to name. `shared` is the dynamic memory.
template <int STREAMS, int THREADS>
__device__ __forceinline__ Warp<STREAMS> begin_warp(unsigned char* shared, const Team& team, int rows) {
    constexpr int kWarps = THREADS / kWarp;
    const int warp = threadIdx.x / kWarp;
    Warp<STREAMS> w;
    w.ring = shared + warp * kSlots * kChunkBytes;
    w.barriers = reinterpret_cast<uint64_t*>(shared + kWarps * kSlots * kChunkBytes) + warp * kSlots;
    w.rows = rows;
    w.worker = static_cast<int>(blockIdx.x) % team.members * kWarps + warp;
    w.workers = team.members * kWarps;
    w.chunks = w.worker < team.chunks ? (team.chunks - w.worker - 1) / w.workers + 1 : 0;
    w.policy = evict_first();
    w.next = {w.chunks > 0 ? static_cast<int>(blockIdx.x) / team.members : rows, 0, 0, 0};
    return w;
}

template <int STREAMS>
__device__ __forceinline__ void first_loads(Warp<STREAMS>& w, const Team& team) {
    if (threadIdx.x % kWarp == 0) {
        for (int slot = 0; slot < kSlots; ++slot) barrier_init(w.barriers + slot);
        barriers_made();
        for (int slot = 0; slot < kSlots; ++slot) w.load(team);
    }
    __syncwarp();
}

// 16 bytes as a register holds them: as elements the compiler would give every 16-bit one a register.
using Raw = float4;

template <typename T, int V>
__device__ __forceinline__ Pack<T, V> elements_of(const Raw& raw) {
    return reinterpret_cast<const Pack<T, V>&>(raw);
}

template <typename T, int V>
__device__ __forceinline__ Pair sum_chunk(const Raw (&packs)[kLoads], int bytes) {
    Run run;
    run.start(to_float(elements_of<T, V>(packs[0]).v[0]));
    #pragma unroll
    for (int j = 0; j < kLoads; ++j) {
        if (static_cast<int>(j * kWarp + threadIdx.x % kWarp) * 16 >= bytes) break;
        const Pack<T, V> pack = elements_of<T, V>(packs[j]);
        #pragma unroll
        for (int k = 0; k < V; ++k) run.add(to_float(pack.v[k]));
    }
    return run.total();
}

template <typename T>
__device__ __forceinline__ Affine affine_here(const Forward& f, int channel) {
    return {parameter<T>(f.weight, f.param_dtype, channel, 1.0f), parameter<T>(f.bias, f.param_dtype, channel, 0.0f)};
}

// y of this lane's packs of a chunk that begins at byte `begin` of the row. PLAIN: neither activation nor residual.
template <typename T, int V, bool PLAIN>
__device__ __forceinline__ void store_chunk(const Forward& f, const Moments& m, const Raw (&packs)[kLoads],
                                            int row, int64_t row_bytes, int64_t begin, int bytes, bool one_channel,
                                            int first_channel) {
    const uint32_t element = static_cast<uint32_t>(begin / sizeof(T));
    const uint32_t plane = static_cast<uint32_t>(f.spatial);
    Affine affine = affine_here<T>(f, first_channel + element / plane);
    #pragma unroll
    for (int j = 0; j < kLoads; ++j) {
        const int offset = static_cast<int>(j * kWarp + threadIdx.x % kWarp) * 16;
        if (offset >= bytes) break;
        if (!one_channel) {
            affine = affine_here<T>(f, first_channel + (element + offset / static_cast<uint32_t>(sizeof(T))) / plane);
        }
        const float scale = m.rstd * affine.weight;
        const float level = fmaf(-m.rest, scale, affine.bias);
        const int64_t at = row * row_bytes + begin + offset;
        Pack<T, V> pack = elements_of<T, V>(packs[j]);
        Pack<float, V> z;
        #pragma unroll
        for (int k = 0; k < V; ++k) z.v[k] = fmaf(to_float(pack.v[k]) - m.mean, scale, level);
        if (!PLAIN) {
            if (f.residual != nullptr) {
                const auto residual =
                    *reinterpret_cast<const Pack<T, V>*>(static_cast<const unsigned char*>(f.residual) + at);
                #pragma unroll
                for (int k = 0; k < V; ++k) z.v[k] += to_float(residual.v[k]);
            }
            if (f.act != kNone) z = activate_pack<V>(f.act, z);
        }
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(z.v[k]);
        __stcs(reinterpret_cast<Raw*>(static_cast<unsigned char*>(f.y) + at), reinterpret_cast<const Raw&>(pack));
    }
}

__device__ __forceinline__ void read_slot(const unsigned char* ring, int slot, Raw (&packs)[kLoads]) {
    const Raw* from = reinterpret_cast<const Raw*>(ring + slot * kChunkBytes) + threadIdx.x % kWarp;
    #pragma unroll
    for (int j = 0; j < kLoads; ++j) packs[j] = from[j * kWarp];
}

// What the block's warps say to each other.
template <int WARPS>
struct Board {
    Pair of_warp[WARPS];
    Pair total;
};

// The team's total of one row, in every thread. Every thread calls it.
template <int THREADS, Exchange EXCHANGE>
__device__ __forceinline__ Pair team_total(Pair mine, Board<THREADS / kWarp>& board, ClusterCells& cells,
                                           double* partials, int row, int round, int member, const Team& team) {
    const int warp = threadIdx.x / kWarp;
    const int lane = threadIdx.x % kWarp;
    mine = warp_sum(mine, kWarp);
    if (lane == 0) board.of_warp[warp] = mine;
    __syncthreads();
    if (warp == 0) {
        Pair sum = {0.0, 0.0};
        if (lane < THREADS / kWarp) sum = board.of_warp[lane];
        sum = warp_sum(sum, kWarp);
        if (EXCHANGE == Exchange::kCluster) {
            tell_cluster(sum, cells, round, member, team.members);
        } else {
            sum = exchange_global(sum, partials + int64_t{row} * team.members * 2, member, team.members);
            if (lane == 0) board.total = sum;
        }
    }
    if (EXCHANGE == Exchange::kGlobal) {
        __syncthreads();
        return board.total;
    }
    cluster_sync();
    return total_of_cluster(cells, round, team.members);
}

// 512 threads of up to 128 registers on an SM, as one block or as two that are out of step.
template <typename T, int THREADS, int HELD, bool PLAIN, Exchange EXCHANGE>
__global__ void __launch_bounds__(THREADS, 512 / THREADS)
    held_forward(const __grid_constant__ Forward f, const __grid_constant__ Team team, double* partials) {
    constexpr int V = 16 / sizeof(T);
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ Board<THREADS / kWarp> board;
    __shared__ ClusterCells cells;
    const int lane = threadIdx.x % kWarp;
    const int member = blockIdx.x % team.members;
    const int first_row = blockIdx.x / team.members;

    Warp<1> w = begin_warp<1, THREADS>(shared, team, static_cast<int>(f.n * f.groups));
    w.tensors[0] = static_cast<const unsigned char*>(f.x);
    first_loads(w, team);
    if (EXCHANGE == Exchange::kCluster) cluster_sync();  // no block writes to one that has not begun

    const bool one_channel = f.spatial * static_cast<int64_t>(sizeof(T)) % kChunkBytes == 0;
    const int groups = static_cast<int>(f.groups);
    const int group_channels = static_cast<int>(f.channels) / groups;
    Walk at = {first_row, 0, 0, 0};
    int round = 0;
    for (int row = first_row; row < w.rows; row += team.teams, ++round) {
        Raw held[HELD > 0 ? HELD : 1][kLoads];
        Pair total = {0.0, 0.0};
        int kept_slot = at.slot;  // of the first chunk that stays in the ring
        #pragma unroll
        for (int i = 0; i < kShare; ++i) {
            if (i >= w.chunks) break;
            const int bytes = chunk_bytes(team, w.chunk_at(i));
            if (i == HELD) kept_slot = at.slot;
            barrier_wait(w.barriers + at.slot, at.parity);
            if (i < HELD) {
                read_slot(w.ring, at.slot, held[i < HELD ? i : 0]);
                total = total + sum_chunk<T, V>(held[i < HELD ? i : 0], bytes);
                __syncwarp();  // all lanes have read the slot
                if (lane == 0) w.load(team);
            } else {
                Raw packs[kLoads];
                read_slot(w.ring, at.slot, packs);
                total = total + sum_chunk<T, V>(packs, bytes);
            }
            advance(at, w.chunks, team.teams);
        }
        total = team_total<THREADS, EXCHANGE>(total, board, cells, partials, row, round, member, team);
        const Moments m = moments_of(total, team.share, f.eps);
        if (member == 0 && threadIdx.x == 0) keep_moments(f, row, m);
        const int first_channel = row % groups * group_channels;
        #pragma unroll
        for (int i = 0; i < HELD; ++i) {
            if (i >= w.chunks) break;
            const int chunk = w.chunk_at(i);
            store_chunk<T, V, PLAIN>(f, m, held[i < HELD ? i : 0], row, team.bytes,
                                     int64_t{chunk} * kChunkBytes, chunk_bytes(team, chunk), one_channel,
                                     first_channel);
        }
        for (int i = HELD; i < w.chunks; ++i) {
            const int chunk = w.chunk_at(i);
            Raw packs[kLoads];
            read_slot(w.ring, kept_slot, packs);
            store_chunk<T, V, PLAIN>(f, m, packs, row, team.bytes, int64_t{chunk} * kChunkBytes,
                                     chunk_bytes(team, chunk), one_channel, first_channel);
            __syncwarp();
            if (lane == 0) w.load(team);
            kept_slot = kept_slot + 1 == kSlots ? 0 : kept_slot + 1;
        }
    }
    if (EXCHANGE == Exchange::kCluster) cluster_sync();
}

}  // namespace kernelwright::group_norm::sm90
