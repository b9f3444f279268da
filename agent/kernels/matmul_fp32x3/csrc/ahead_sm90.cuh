// Splitting both operands within the product, ahead of the tensor cores: three warps of every block, 32 rows of a tile of one
// stage at a time, in about the order in which the products need them. Who loads a tile's stage waits until it is there; who
// splits waits for nobody.
#pragma once

#include "../../csrc/warpgroups_sm90.cuh"
#include "schedule_sm90.cuh"
#include "split_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kSplitWarps = 3;   // of the warpgroup that loads; its first warp does that
constexpr int kStripRows = 32;
constexpr int kStrips = kTile / kStripRows;
constexpr int kStagedBytes = kStripRows * kHalf * static_cast<int>(sizeof(float));  // of half a strip
constexpr int kAheadBytes = kSplitWarps * 2 * kStagedBytes;

// The order. A panel is what the blocks multiply at about one time: matrices of a batch together, or tiles of a large one. In
// a panel the stages follow each other, and of each stage all the tiles.
struct Ahead {
    Operands both;
    int stages, parts;  // of Schedule
    int together;       // matrices of a panel; 0 where a matrix has several
    int panels;
    int band;           // tiles of a's rows in a panel of a large matrix
    int columns;        // tiles of b in its first panel
    int* ready;         // [tiles of a, then of b][stages]: strips that are there

    __device__ __forceinline__ int* of_a(int64_t tile, int stage) const { return ready + tile * stages + stage; }
    __device__ __forceinline__ int* of_b(int64_t tile, int stage) const {
        return ready + (both.a.batch * both.a.tiles() + tile) * stages + stage;
    }
};

struct Panel {
    int a_begin, a_end, b_begin, b_end;  // tiles, of all matrices

    __device__ __forceinline__ int of_a() const { return a_end - a_begin; }
    __device__ __forceinline__ int strips() const { return (of_a() + b_end - b_begin) * kStrips; }
};

__device__ __forceinline__ Panel panel_at(const Ahead& order, int number) {
    const int of_a = static_cast<int>(order.both.a.tiles()), of_b = static_cast<int>(order.both.b.tiles());
    const int of_batch_a = static_cast<int>(order.both.a.batch), of_batch_b = static_cast<int>(order.both.b.batch);
    if (order.together > 0) {
        const int first = number * order.together, past = first + order.together;
        return {min(first, of_batch_a) * of_a, min(past, of_batch_a) * of_a, min(first, of_batch_b) * of_b, min(past, of_batch_b) * of_b};
    }
    // The first band of a with the first columns of b, the other columns, and each other band.
    const int panels = (of_a + order.band - 1) / order.band + 1;
    const int matrix = number / panels, within = number % panels;
    const int band = within == 0 ? 0 : within - 1;
    const int first_a = min(matrix, of_batch_a) * of_a, first_b = min(matrix, of_batch_b) * of_b;
    Panel panel = {first_a, first_a, first_b, first_b};
    if (within != 1 && matrix < of_batch_a) {
        panel.a_begin = first_a + min(band * order.band, of_a);
        panel.a_end = first_a + min((band + 1) * order.band, of_a);
    }
    if (within < 2 && matrix < of_batch_b) {
        panel.b_begin = first_b + (within == 0 ? 0 : min(order.columns, of_b));
        panel.b_end = first_b + (within == 0 ? min(order.columns, of_b) : of_b);
    }
    return panel;
}

// A strip of a tile of one stage.
struct Strip {
    bool is_a;
    int tile, stage, number;
};

// The strips of this warp, in turn.
struct Strips {
    int at, step;      // of all strips of all stages
    int panel, first;  // the panel that `at` is in, or before, and where that begins
    Panel now;

    __device__ __forceinline__ Strips(const Ahead& order, int begin, int step)
        : at(begin), step(step), panel(0), first(0), now(panel_at(order, 0)) {}

    __device__ __forceinline__ bool next(const Ahead& order, Strip& strip) {
        const int of_part = (order.stages + order.parts - 1) / order.parts;
        for (;; at += step) {
            for (int count; at >= first + (count = now.strips() * of_part * order.parts);) {
                first += count;
                if (++panel >= order.panels) return false;
                now = panel_at(order, panel);
            }
            const int of_stage = now.strips(), turn = (at - first) / of_stage, rest = (at - first) % of_stage;
            const int tile = rest / kStrips, part = turn % order.parts;
            const Schedule parts = {0, order.stages, order.parts, 0};
            const int stage = parts.begin_of(part) + turn / order.parts;
            if (stage >= parts.begin_of(part + 1)) continue;
            const bool is_a = tile < now.of_a();
            const Operand& of = is_a ? order.both.a : order.both.b;
            const int number = is_a ? now.a_begin + tile : now.b_begin + tile - now.of_a();
            const int in_matrix = number % static_cast<int>(of.tiles());
            if (stage < of.first_stage(in_matrix) || stage >= of.past_stage(in_matrix)) continue;  // nobody reads it
            strip = {is_a, number, stage, rest % kStrips};
            at += step;
            return true;
        }
    }
};

// Half of a strip: 32 rows of 32 of the depth, that a warp brings to shared memory by elements, any layout, and splits there.
struct Half {
    const Operand& of;
    int64_t first_row, begin;  // of the matrix
    int row, eights;           // where it goes, in the tile's stage
    const float* values;       // of its first row and depth
    unsigned char* packed;     // of the tile's stage
    int64_t padded_row;        // of all matrices

    __device__ __forceinline__ Half(const Ahead& order, const Strip& strip, int half)
        : of(strip.is_a ? order.both.a : order.both.b) {
        const int tiles = static_cast<int>(of.tiles());
        row = strip.number * kStripRows, eights = half * (kHalf / 8);
        first_row = static_cast<int64_t>(strip.tile % tiles) * kTile + row;
        begin = static_cast<int64_t>(strip.stage) * kDepth + half * kHalf;
        values = of.values + strip.tile / tiles * of.batch_step + first_row * of.row_step + begin * of.depth_step;
        const int bytes = of.is_b ? kOperandBytes : kPackedBytes;
        packed = of.packed + (static_cast<int64_t>(strip.tile) * of.stages + strip.stage) * bytes;
        padded_row = static_cast<int64_t>(strip.tile) * kTile + row;
    }
};

// Where in shared memory a row's 16 bytes of number `piece` lie, of eight: a column of them meets all banks.
__device__ __forceinline__ int staged_at(int row, int piece) { return row * 128 + ((piece ^ row) % 8) * 16; }

// And an element, of 32: as well.
__device__ __forceinline__ int staged_at_element(int row, int element) {
    return staged_at(row, element / 4) + ((element ^ row / 8) % 4) * 4;
}

// To shared memory, by elements. Lanes are neighbours in memory where there are any.
__device__ __forceinline__ void fetch(const Half& half, unsigned char* staged) {
    const Operand& of = half.of;
    const int lane = sm90::this_lane();
    const int64_t rows = of.rows - half.first_row, depths = of.depth - half.begin;
    const int64_t mine = of.by_rows ? rows : depths, others = of.by_rows ? depths : rows;
    const int count = lane < mine ? static_cast<int>(min(others, int64_t{32})) : 0;
    const float* from = half.values + lane * (of.by_rows ? of.row_step : of.depth_step);
    const int64_t step = of.by_rows ? of.depth_step : of.row_step;
    #pragma unroll 8
    for (int i = 0; i < 32; ++i, from += step) {
        const int to = of.by_rows ? staged_at_element(lane, i) : staged_at_element(i, lane);
        sm90::copy_element(staged + to, i < count ? from : of.values, i < count);
    }
    sm90::copies_asked();
}

// Eight neighbours in depth of this lane's row.
__device__ __forceinline__ void eight_of(const Half& half, const unsigned char* staged, int number, float (&v)[8]) {
    const int lane = sm90::this_lane();
    #pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = *reinterpret_cast<const float*>(staged + staged_at_element(lane, number * 8 + i));
    keep_part<8>(half.of, v, half.first_row + lane, half.begin + number * 8);
}

// In place, a row by each lane: the 32 bytes of eight values become 16 of hi and 16 of lo.
template <bool DRAWN>
__device__ __forceinline__ void split_half(const Half& half, unsigned char* staged) {
    const int lane = sm90::this_lane();
    float v[8];
    int exponent;
    if (half.of.is_b) {
        exponent = exponent_for(__ldg(half.of.largest + half.padded_row + lane));
    } else {
        float largest = 0.0f;
        #pragma unroll
        for (int i = 0; i < kHalf / 8; ++i) {
            eight_of(half, staged, i, v);
            largest = fmaxf(largest, largest_of<8>(v));
        }
        exponent = exponent_for(largest);
        reinterpret_cast<float*>(half.packed + kOperandBytes)[half.eights / 4 * kTile + half.row + lane] = factor_of(exponent);
    }
    #pragma unroll 1
    for (int i = 0; i < kHalf / 8; ++i) {
        eight_of(half, staged, i, v);
        linear::Halves hi, lo;
        linear::split_eight<DRAWN>(v, scale_of(exponent), static_cast<uint32_t>(half.first_row + lane),
                                   static_cast<uint32_t>(half.begin + i * 8), hi, lo);
        *reinterpret_cast<linear::Halves*>(staged + staged_at(lane, 2 * i)) = hi;
        *reinterpret_cast<linear::Halves*>(staged + staged_at(lane, 2 * i + 1)) = lo;
    }
    __syncwarp();
}

__device__ __forceinline__ void store_half(const Half& half, const unsigned char* staged) {
    const int lane = sm90::this_lane(), eight = lane % 4;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = i * 8 + lane / 4;
        unsigned char* to = half.packed + matrix::swizzled(half.row + row, half.eights + eight);
        *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(staged + staged_at(row, 2 * eight));
        *reinterpret_cast<float4*>(to + kHalfBytes) = *reinterpret_cast<const float4*>(staged + staged_at(row, 2 * eight + 1));
    }
    __syncwarp();  // all have read what the next half is brought to
}

// What this warp stored so far is there for everybody's copies.
__device__ __forceinline__ void tell(int* ready) {
    sm90::all_stores_made();
    __syncwarp();
    if (threadIdx.x % 32 > 0) return;
    __threadfence();
    atomicAdd(ready, 1);
}

// By the warps that split, `number` of kSplitWarps in this block. While one half is split the next one is on its way. A strip
// is told before the next one's first half is stored: by then its own stores need no waiting for.
__device__ __forceinline__ void split_ahead(const Ahead& order, int number, unsigned char* staged) {
    Strips strips(order, blockIdx.x * kSplitWarps + number, gridDim.x * kSplitWarps);
    Strip strip, later;
    bool is_there = strips.next(order, strip);
    int* untold = nullptr;
    #pragma unroll 1
    for (int half = 0; is_there && half < 2; ++half) fetch(Half(order, strip, half), staged + half * kStagedBytes);
    while (is_there) {
        const bool more = strips.next(order, later);
        #pragma unroll 1
        for (int i = 0; i < 2; ++i) {
            const Half half(order, strip, i);
            unsigned char* const at = staged + i * kStagedBytes;
            sm90::copies_made<1>();
            __syncwarp();
            half.of.drawn ? split_half<true>(half, at) : split_half<false>(half, at);
            if (i == 0 && untold != nullptr) tell(untold);
            store_half(half, at);
            if (more) {
                fetch(Half(order, later, i), at);
            } else {
                sm90::copies_asked();
            }
        }
        untold = strip.is_a ? order.of_a(strip.tile, strip.stage) : order.of_b(strip.tile, strip.stage);
        strip = later, is_there = more;
    }
    if (untold != nullptr) tell(untold);
}

// By a warp: waits for the next stage of a tile of a and of one of b, whose counters these are, and tells how many of the next
// `count` stages are there.
__device__ __forceinline__ int wait_for_stages(const int* of_a, const int* of_b, int count) {
    const int lane = threadIdx.x % 32, stage = lane % 16;
    const int* ready = (lane < 16 ? of_a : of_b) + min(stage, count - 1);
    int known;
    do {
        const unsigned there = __ballot_sync(0xffffffffu, sm90::load_acquire(ready) >= kStrips);
        known = min(__ffs(~(there & there >> 16 & 0xffffu)) - 1, count);
    } while (known == 0);
    __syncwarp();
    sm90::all_stores_made();
    return known;
}

inline Ahead ahead_of(const Operands& both, const Cut& cut, int64_t batch, int64_t sms, int* ready) {
    constexpr int64_t kBand = linear::kBand;
    const int64_t rows = both.a.tiles(), columns = both.b.tiles(), tiles = rows * columns;
    const int64_t at_once = std::max(cut.streamed, std::max<int64_t>(sms / cut.parts, 1));
    Ahead order = {};
    order.both = both;
    order.stages = static_cast<int>(both.a.stages), order.parts = static_cast<int>(cut.parts);
    order.ready = ready;
    if (tiles <= at_once) {
        order.together = static_cast<int>(std::min(batch, ceil_div(at_once, tiles)));
        order.panels = static_cast<int>(ceil_div(batch, order.together));
    } else {
        order.band = static_cast<int>(std::min(kBand, rows));
        order.columns = static_cast<int>(std::min(columns, ceil_div(sms, order.band)));
        order.panels = static_cast<int>(batch * (ceil_div(rows, order.band) + 1));
    }
    return order;
}

}  // namespace kernelwright::matmul
