// Splitting both operands within the product, ahead of the tensor cores: three warps of every block, 32 rows of a tile of one
// stage at a time, in about the order in which the products need them. Who loads a tile's stage waits until it is there; who
// splits waits for nobody.
#pragma once

#include "schedule_sm90.cuh"
#include "split_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kSplitWarps = 3;   // of the warpgroup that loads; its first warp does that
constexpr int kStripRows = 32;
constexpr int kStrips = kTile / kStripRows;
constexpr int kStagedBytes = 2 * kStripRows * kHalf * 2;  // hi and lo of a strip's half
constexpr int kAheadBytes = kSplitWarps * kStagedBytes;

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

// What a warp splits: where it lies, and where it goes.
struct Piece {
    const float* matrix;
    int64_t first_row, depth;  // of the matrix; of the stage
    unsigned char* packed;     // of the tile's stage
    int row;                   // the first one, in the tile
};

template <bool DRAWN>
__device__ __forceinline__ void split_strip_by_rows(const Operand& of, const Piece& piece, int exponent, unsigned char* staged) {
    const int lane = threadIdx.x % 32;
    const int64_t row = piece.first_row + lane;
    #pragma unroll 1
    for (int half = 0; half < 2; ++half) {
        const int64_t begin = piece.depth + half * kHalf;
        const float* from = piece.matrix + row + begin * of.depth_step;
        const int64_t there = row < of.rows ? of.depth - begin : 0;
        float v[kHalf];
        if (there >= kHalf) {
            #pragma unroll
            for (int i = 0; i < kHalf; ++i) v[i] = from[i * of.depth_step];
        } else {
            #pragma unroll
            for (int i = 0; i < kHalf; ++i) v[i] = i < there ? from[i * of.depth_step] : 0.0f;
        }
        keep_part<kHalf>(of, v, row, begin);
        if (!of.is_b) {
            exponent = exponent_for(largest_of<kHalf>(v));
            reinterpret_cast<float*>(piece.packed + kOperandBytes)[half * kTile + piece.row + lane] = factor_of(exponent);
        }
        __syncwarp();
        #pragma unroll
        for (int i = 0; i < kHalf / 8; ++i) {
            linear::Halves hi, lo;
            linear::split_eight<DRAWN>(v + i * 8, scale_of(exponent), static_cast<uint32_t>(row),
                                       static_cast<uint32_t>(begin + i * 8), hi, lo);
            unsigned char* to = staged + lane * 64 + (i ^ (lane / 2 % 4)) * 16;
            *reinterpret_cast<linear::Halves*>(to) = hi;
            *reinterpret_cast<linear::Halves*>(to + kStagedBytes / 2) = lo;
        }
        __syncwarp();
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int of_row = i * 8 + lane / 4, eight = lane % 4;
            const unsigned char* at = staged + of_row * 64 + (eight ^ (of_row / 2 % 4)) * 16;
            unsigned char* to = piece.packed + matrix::swizzled(piece.row + of_row, half * 4 + eight);
            *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(at);
            *reinterpret_cast<float4*>(to + kHalfBytes) = *reinterpret_cast<const float4*>(at + kStagedBytes / 2);
        }
    }
}

template <bool DRAWN>
__device__ __forceinline__ void split_strip_by_depth(const Operand& of, const Piece& piece, int of_lane) {
    const int lane = threadIdx.x % 32, eight = lane % 8;
    const int64_t begin = piece.depth + eight * 8;
    #pragma unroll 1
    for (int half = 0; half < 2; ++half) {
        float v[kHalf];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int64_t row = piece.first_row + half * 16 + i * 4 + lane / 8;
            const float* from = piece.matrix + row * of.row_step + begin * of.depth_step;
            const int64_t there = row < of.rows ? of.depth - begin : 0;
            if (of.by_fours && there >= 8) {
                const float4 first = reinterpret_cast<const float4*>(from)[0], second = reinterpret_cast<const float4*>(from)[1];
                v[8 * i] = first.x, v[8 * i + 1] = first.y, v[8 * i + 2] = first.z, v[8 * i + 3] = first.w;
                v[8 * i + 4] = second.x, v[8 * i + 5] = second.y, v[8 * i + 6] = second.z, v[8 * i + 7] = second.w;
            } else {
                #pragma unroll
                for (int j = 0; j < 8; ++j) v[8 * i + j] = j < there ? from[j * of.depth_step] : 0.0f;
            }
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int of_strip = half * 16 + i * 4 + lane / 8;
            const int64_t row = piece.first_row + of_strip;
            keep_part<8>(of, v + 8 * i, row, begin);
            int exponent = __shfl_sync(0xffffffffu, of_lane, of_strip);
            if (!of.is_b) {
                float largest = largest_of<8>(v + 8 * i);
                largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
                largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
                exponent = exponent_for(largest);
                if (lane % 4 == 0) {
                    auto* factors = reinterpret_cast<float*>(piece.packed + kOperandBytes);
                    factors[eight / 4 * kTile + piece.row + of_strip] = factor_of(exponent);
                }
            }
            linear::Halves hi, lo;
            linear::split_eight<DRAWN>(v + 8 * i, scale_of(exponent), static_cast<uint32_t>(row), static_cast<uint32_t>(begin), hi, lo);
            unsigned char* to = piece.packed + matrix::swizzled(piece.row + of_strip, eight);
            *reinterpret_cast<linear::Halves*>(to) = hi;
            *reinterpret_cast<linear::Halves*>(to + kHalfBytes) = lo;
        }
    }
}

__device__ __forceinline__ void split_strip(const Ahead& order, const Strip& strip, unsigned char* staged) {
    const Operand& of = strip.is_a ? order.both.a : order.both.b;
    const int tiles = static_cast<int>(of.tiles()), lane = threadIdx.x % 32;
    const int bytes = of.is_b ? kOperandBytes : kPackedBytes;
    Piece piece;
    piece.matrix = of.values + strip.tile / tiles * of.batch_step;
    piece.row = strip.number * kStripRows;
    piece.first_row = static_cast<int64_t>(strip.tile % tiles) * kTile + piece.row;
    piece.depth = static_cast<int64_t>(strip.stage) * kDepth;
    piece.packed = of.packed + (static_cast<int64_t>(strip.tile) * of.stages + strip.stage) * bytes;
    int exponent = 0;
    if (of.is_b) exponent = exponent_for(__ldg(of.largest + static_cast<int64_t>(strip.tile) * kTile + piece.row + lane));
    if (of.by_rows) {
        of.drawn ? split_strip_by_rows<true>(of, piece, exponent, staged)
                 : split_strip_by_rows<false>(of, piece, exponent, staged);
    } else {
        of.drawn ? split_strip_by_depth<true>(of, piece, exponent) : split_strip_by_depth<false>(of, piece, exponent);
    }
}

// By the warps that split, `number` of kSplitWarps in this block.
__device__ __forceinline__ void split_ahead(const Ahead& order, int number, unsigned char* staged) {
    Strips strips(order, blockIdx.x * kSplitWarps + number, gridDim.x * kSplitWarps);
    for (Strip strip; strips.next(order, strip);) {
        split_strip(order, strip, staged);
        sm90::all_stores_made();
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            __threadfence();
            atomicAdd(strip.is_a ? order.of_a(strip.tile, strip.stage) : order.of_b(strip.tile, strip.stage), 1);
        }
    }
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
