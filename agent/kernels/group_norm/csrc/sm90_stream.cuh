// One read and one write for groups that exceed a block: code shared by forward and backward.
//
// All SMs, or a team of them, take turns at the chunks of a group. They go on with the next group while its sums are
// exchanged. The warps of an SM are specialised, and chunks pass through a ring in shared memory:
//
//   loader     one lane copies chunks into the ring as slots become free, however far ahead
//   summers    sum chunks as they arrive
//   publisher  publishes this SM's sum of a row to the team
//   collector  reads the sums of the team, and posts the answer that the storers need for the row
//   storers    hold a chunk each in registers until the answer is known, then write the result
//
// Only the storers wait for a row to finish, and there is no barrier over a block. The limit is how long a chunk stays
// in the ring. The ring holds 216 KB, and an SM reads 16 KB per us at the copy rate, so that a chunk can stay 13 us. A
// chunk needs 1 to 2 us to arrive and 2 us for the exchange. The other chunks of its row take 4 us (8 MiB over all 132
// SMs), and the storers up to 4 us for earlier chunks. The storers' registers add 4 us to the limit.
//
// The sums go through global memory (sm90_exchange.cuh).
#pragma once

#include "elements.cuh"
#include "sm90_exchange.cuh"
#include "sm90_policy.cuh"
#include "sums.cuh"

namespace kernelwright::group_norm::sm90 {

constexpr int kSlotBytes = 4096;
constexpr int kSlots = 54;
constexpr int kWorkers = 20;  // summers and storers
constexpr int kLoader = 0;  // number of each specialised warp in a block
constexpr int kPublisher = 1;
constexpr int kCollector = 2;
constexpr int kFirstSummer = 3;
constexpr int kThreads = kWarp * (kFirstSummer + kWorkers);
constexpr int kRows = 64;  // maximum rows that an SM has started and not finished
constexpr int kSharedBytes = kSlots * (kSlotBytes + 2 * static_cast<int>(sizeof(uint64_t)));

// Every row has at least two chunks for each block of its team, so fewer than kRows rows are in flight at once.
static_assert(kRows >= (kSlots + kWorkers) / 2 + 2, "a row's place would be taken while it is needed");
static_assert(kRows >= kSlots, "slots would be left without barriers");

// Distribution of the rows. Team t handles rows t, t + teams, ...; its members take turns at the chunks of all of them.
// is_last_read: reads are evict-first in L2.
struct Share {
    int teams, members;
    int rows;
    int chunks;       // chunks of a row; the last one may be partial
    int64_t bytes;    // bytes of a row
    double inverse;   // 1 / elements of a row
    bool is_last_read;
    int spatial;
    int groups, group_channels;
    Divisor<int> by_spatial{1}, by_groups{1};

    __device__ __forceinline__ int first_channel(int row) const {
        return (row - quotient(row, by_groups) * groups) * group_channels;
    }
};

// A chunk of a member, and the slot that it passes through.
struct Cursor {
    int row, turn;    // turn: ordinal of the row within its team
    int chunk;
    int slot;
    uint32_t parity;
};

__device__ __forceinline__ void advance(Cursor& at, const Share& share, int steps) {
    for (at.chunk += steps * share.members; at.chunk >= share.chunks; at.chunk -= share.chunks) {
        at.row += share.teams;
        ++at.turn;
    }
    at.slot += steps;
    if (at.slot >= kSlots) {
        at.slot -= kSlots;
        at.parity ^= 1;
    }
}

// Returns the chunk that is `skipped` chunks after this block's first.
__device__ __forceinline__ Cursor first_chunk(const Share& share, int skipped) {
    Cursor at = {static_cast<int>(blockIdx.x) / share.members, 0, static_cast<int>(blockIdx.x) % share.members, 0, 0};
    advance(at, share, skipped);
    return at;
}

struct Ring {
    unsigned char* slots;
    uint64_t* full;
    uint64_t* free;  // a summer and a storer have both read the slot
};

// Communication between the warps of a block for each row in flight.
template <class Answer, int SUMMERS>
struct Board {
    Pair sums[kRows][SUMMERS];
    Answer answers[kRows];
    uint64_t summed[kRows];
    uint64_t answered[kRows];
};

template <class Answer, int SUMMERS>
__device__ __forceinline__ Ring begin(unsigned char* shared, Board<Answer, SUMMERS>& board) {
    Ring ring;
    ring.slots = shared;
    ring.full = reinterpret_cast<uint64_t*>(shared + kSlots * kSlotBytes);
    ring.free = ring.full + kSlots;
    // Initialises barriers with one lane of each warp, since the lanes of a warp would initialise them one after the
    // other.
    if (threadIdx.x % kWarp == 0) {
        #pragma unroll 1
        for (int place = threadIdx.x / kWarp; place < kRows; place += kThreads / kWarp) {
            if (place < kSlots) {
                barrier_init(ring.full + place);
                barrier_init(ring.free + place, 2 * kWarp);
            }
            barrier_init(board.summed + place, SUMMERS * kWarp);
            barrier_init(board.answered + place, kWarp);
        }
        barriers_made();
    }
    __syncthreads();
    return ring;
}

// Returns the bytes of a chunk: `most`, or the rest of the row.
__device__ __forceinline__ int bytes_of(const Share& share, int chunk, int most) {
    const int64_t left = share.bytes - int64_t{chunk} * most;
    return static_cast<int>(left < most ? left : most);
}

// Copies chunks to the ring. A slot holds the same chunk of each of STREAMS tensors, kSlotBytes / STREAMS each.
template <int STREAMS>
__device__ __forceinline__ void load_chunks(const Share& share, const Ring& ring, const void* const (&tensors)[STREAMS]) {
    constexpr int kBytes = kSlotBytes / STREAMS;
    const uint64_t policy = policy_of(share.is_last_read);
    for (Cursor at = first_chunk(share, 0); at.row < share.rows; advance(at, share, 1)) {
        const uint32_t bytes = bytes_of(share, at.chunk, kBytes);
        const int64_t offset = at.row * share.bytes + int64_t{at.chunk} * kBytes;
        barrier_wait(ring.free + at.slot, at.parity ^ 1);
        barrier_expect(ring.full + at.slot, STREAMS * bytes);
        #pragma unroll
        for (int i = 0; i < STREAMS; ++i) {
            bulk_load(ring.slots + at.slot * kSlotBytes + i * kBytes,
                      static_cast<const unsigned char*>(tensors[i]) + offset, bytes, ring.full + at.slot,
                      policy);
        }
    }
}

template <class Answer, int SUMMERS>
__device__ __forceinline__ void publish_sums(const Share& share, Board<Answer, SUMMERS>& board, double* partials) {
    const int lane = threadIdx.x % kWarp;
    const int member = blockIdx.x % share.members;
    int turn = 0;
    for (int row = blockIdx.x / share.members; row < share.rows; row += share.teams, ++turn) {
        const int place = turn % kRows;
        barrier_wait(board.summed + place, turn / kRows % 2);
        Pair sum = {0.0, 0.0};
        if (lane < SUMMERS) sum = board.sums[place][lane];
        publish(warp_sum(sum, kWarp), partials + (int64_t{row} * share.members + member) * 2);
    }
}

// Posts the totals of rows for the storers. `answer(row, total)` returns the values that the storers need.
template <class Answer, int SUMMERS, class Make>
__device__ __forceinline__ void collect_sums(const Share& share, Board<Answer, SUMMERS>& board, const double* partials, Make answer) {
    int turn = 0;
    for (int row = blockIdx.x / share.members; row < share.rows; row += share.teams, ++turn) {
        const Pair total = collect(partials + int64_t{row} * share.members * 2, share.members);
        if (threadIdx.x % kWarp == 0) board.answers[turn % kRows] = answer(row, total);
        barrier_arrive(board.answered + turn % kRows);
    }
}

// Sums the chunks of a row and publishes the total. `sum(at)` consumes the chunk under the cursor and returns the
// lane's sum, which is then added up over the warp.
template <class Answer, int SUMMERS, class Sum>
__device__ __forceinline__ void sum_chunks(const Share& share, Board<Answer, SUMMERS>& board, int summer, Sum sum) {
    const int lane = threadIdx.x % kWarp;
    Cursor at = first_chunk(share, summer);
    int turn = 0;
    for (int row = blockIdx.x / share.members; row < share.rows; row += share.teams, ++turn) {
        Pair total = {0.0, 0.0};
        for (; at.row == row; advance(at, share, SUMMERS)) total = total + sum(at);
        total = warp_sum(total, kWarp);
        if (lane == 0) board.sums[turn % kRows][summer] = total;
        barrier_arrive(board.summed + turn % kRows);
    }
}

// Releases the slot for this lane, once its packs are in registers.
__device__ __forceinline__ void slot_read(const Ring& ring, const Cursor& at) {
    reads_made();
    barrier_arrive(ring.free + at.slot);
}

template <class Answer, int SUMMERS>
__device__ __forceinline__ Answer answer_for(Board<Answer, SUMMERS>& board, int turn) {
    barrier_wait(board.answered + turn % kRows, turn / kRows % 2);
    return board.answers[turn % kRows];
}

template <int LOADS>
__device__ __forceinline__ void read_chunk(const unsigned char* from, Raw (&packs)[LOADS]) {
    #pragma unroll
    for (int j = 0; j < LOADS; ++j) packs[j] = reinterpret_cast<const Raw*>(from)[j * kWarp + threadIdx.x % kWarp];
}

}  // namespace kernelwright::group_norm::sm90
