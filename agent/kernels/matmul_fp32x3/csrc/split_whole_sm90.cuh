// Splitting of operands up to a depth of 2048: a block holds some rows whole, so that b is read once too.
#pragma once

#include "split_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kHeld = 64;            // values of a thread
constexpr int kStretches = kSplitThreads;  // of 64 in depth that a block holds: rows times stages
constexpr int kMostStages = 32;      // of a row that a block holds: of 8 rows, 32 bytes beside each other

// Rows of a block and stages of each, kStretches in all.
struct Window {
    int rows, stages;

    __host__ __device__ explicit Window(int64_t of_operand) {
        stages = kStretches / kTile;
        while (stages < of_operand) stages *= 2;
        rows = kStretches / stages;
    }
    __host__ __device__ int64_t blocks(const Operand& of) const { return of.batch * of.tiles() * (kTile / rows); }
};

// Which eight neighbours in depth are a thread's, the i-th of 8. Where rows are neighbours a thread has a whole stretch; where
// depths are, or nothing is, eight threads share one.
struct WideEights {
    bool by_rows;

    __device__ __forceinline__ int stretch(int i) const { return by_rows ? threadIdx.x : i * (kStretches / 8) + threadIdx.x / 8; }
    __device__ __forceinline__ int piece(int i) const { return by_rows ? i : threadIdx.x % 8; }
};

struct Hold {
    __align__(16) unsigned char stretches[kStretches][128];  // half of each: hi and lo of 32 in depth
    float largest[kStretches];
    int exponents[kTile];
};

// Where a stretch begins, and what there is of it.
struct Stretch {
    int row, stage;  // row of the tile

    __device__ __forceinline__ Stretch(const Window& window, int first_row, int number)
        : row(first_row + number % window.rows), stage(number / window.rows) {}
};

template <bool BY_ROWS>
__device__ __forceinline__ void load_window(float (&v)[kHeld], const Operand& of, const float* matrix, int64_t tile_row,
                                            int first_row, const Window& window) {
    const WideEights eights = {BY_ROWS};
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const Stretch stretch(window, first_row, eights.stretch(i));
        const int64_t row = tile_row + stretch.row, begin = stretch.stage * int64_t{kDepth} + eights.piece(i) * 8;
        const float* from = matrix + row * of.row_step + begin * of.depth_step;
        const int64_t there = row < of.rows ? of.depth - begin : 0;
        float* eight = v + i * 8;
        if (!BY_ROWS && of.by_fours && there >= 8) {
            const float4 first = reinterpret_cast<const float4*>(from)[0], second = reinterpret_cast<const float4*>(from)[1];
            eight[0] = first.x, eight[1] = first.y, eight[2] = first.z, eight[3] = first.w;
            eight[4] = second.x, eight[5] = second.y, eight[6] = second.z, eight[7] = second.w;
        } else if (BY_ROWS && there >= 8) {
            #pragma unroll
            for (int j = 0; j < 8; ++j) eight[j] = from[j * of.depth_step];
        } else {
            #pragma unroll
            for (int j = 0; j < 8; ++j) eight[j] = j < there ? from[j * of.depth_step] : 0.0f;
        }
    }
    if (of.part == kWhole) return;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const Stretch stretch(window, first_row, eights.stretch(i));
        keep_part<8>(of, v + i * 8, tile_row + stretch.row, stretch.stage * int64_t{kDepth} + eights.piece(i) * 8);
    }
}

// The exponents of a thread's eights: of b by whole rows, of a by halves of a stretch.
template <bool BY_ROWS>
__device__ __forceinline__ void find_window_exponents(int (&exponents)[8], Hold& hold, const Operand& of, const float (&v)[kHeld],
                                                      const Window& window, int first_row, int64_t number) {
    const WideEights eights = {BY_ROWS};
    float largest[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) largest[i] = largest_of<8>(v + i * 8);
    if (BY_ROWS) {
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
            const float of_half = largest_of<4>(largest + i);
            #pragma unroll
            for (int j = 0; j < 4; ++j) largest[i + j] = of_half;
        }
    } else {
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            largest[i] = fmaxf(largest[i], __shfl_xor_sync(0xffffffffu, largest[i], 1));
            largest[i] = fmaxf(largest[i], __shfl_xor_sync(0xffffffffu, largest[i], 2));
        }
    }
    if (!of.is_b) {
        #pragma unroll
        for (int i = 0; i < 8; ++i) exponents[i] = exponent_for(largest[i]);
        return;
    }
    if (BY_ROWS) {
        hold.largest[threadIdx.x] = fmaxf(largest[0], largest[4]);
    } else {
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float of_all = fmaxf(largest[i], __shfl_xor_sync(0xffffffffu, largest[i], 4));
            if (threadIdx.x % 8 == 0) hold.largest[eights.stretch(i)] = of_all;
        }
    }
    __syncthreads();
    if (threadIdx.x < window.rows) {
        float of_row = 0.0f;
        #pragma unroll 8
        for (int stage = 0; stage < window.stages; ++stage) of_row = fmaxf(of_row, hold.largest[stage * window.rows + threadIdx.x]);
        const int exponent = exponent_for(of_row);
        hold.exponents[threadIdx.x] = exponent;
        of.exponents[number * kTile + first_row + threadIdx.x] = exponent;
    }
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 8; ++i) exponents[i] = hold.exponents[eights.stretch(i) % window.rows];
}

template <bool BY_ROWS, bool DRAWN>
__device__ __forceinline__ void split_window(Hold& hold, const Operand& of, int64_t block) {
    const Window window(of.stages);
    const int64_t groups = kTile / window.rows, number = block / groups, tile_row = number % of.tiles() * kTile;
    const int first_row = static_cast<int>(block % groups) * window.rows;
    const float* matrix = of.values + number / of.tiles() * of.batch_step;
    const WideEights eights = {BY_ROWS};
    const int bytes = of.is_b ? kOperandBytes : kPackedBytes;
    unsigned char* packed = of.packed + number * of.stages * bytes;
    float v[kHeld];
    load_window<BY_ROWS>(v, of, matrix, tile_row, first_row, window);
    int exponents[8];
    find_window_exponents<BY_ROWS>(exponents, hold, of, v, window, first_row, number);
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        #pragma unroll
        for (int i = half * 4; i < half * 4 + 4; ++i) {
            const Stretch stretch(window, first_row, eights.stretch(i));
            const int piece = eights.piece(i);
            linear::Halves hi, lo;
            linear::split_eight<DRAWN>(v + i * 8, scale_of(exponents[i]), static_cast<uint32_t>(tile_row + stretch.row),
                                       static_cast<uint32_t>(stretch.stage * kDepth + piece * 8), hi, lo);
            if (BY_ROWS) {
                // Of eight lanes every one has other banks: four places of a stretch are hi's, which they are changes by row.
                unsigned char* to = hold.stretches[threadIdx.x];
                const int place = (piece ^ lane) & 3, upper = lane >> 2 & 1;
                *reinterpret_cast<linear::Halves*>(to + (place + upper * 4) * 16) = hi;
                *reinterpret_cast<linear::Halves*>(to + (place + (upper ^ 1) * 4) * 16) = lo;
            } else if (stretch.stage < of.stages) {
                unsigned char* to = packed + stretch.stage * bytes + matrix::swizzled(stretch.row, piece);
                *reinterpret_cast<linear::Halves*>(to) = hi;
                *reinterpret_cast<linear::Halves*>(to + kHalfBytes) = lo;
            }
            const bool begins = piece % 4 == 0;
            if (!of.is_b && begins && stretch.stage < of.stages) {
                auto* factors = reinterpret_cast<float*>(packed + stretch.stage * bytes + kOperandBytes);
                factors[piece / 4 * kTile + stretch.row] = factor_of(exponents[i]);
            }
        }
        if (!BY_ROWS) continue;
        __syncwarp();
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int other = threadIdx.x / 32 * 32 + i * 4 + lane / 8, place = lane % 8;
            const Stretch stretch(window, first_row, other);
            const int upper = other >> 2 & 1, is_lo = place >> 2 ^ upper;
            if (stretch.stage >= of.stages) continue;
            unsigned char* to = packed + stretch.stage * bytes + stretch.row * matrix::kRowBytes + is_lo * kHalfBytes;
            *reinterpret_cast<float4*>(to + ((half ^ upper) * 4 + (place & 3)) * 16) =
                *reinterpret_cast<const float4*>(hold.stretches[other] + place * 16);
        }
        __syncwarp();
    }
}

template <bool DRAWN>
__device__ __forceinline__ void split_window_of(Hold& hold, const Operand& of, int64_t block) {
    if (of.by_rows) {
        split_window<true, DRAWN>(hold, of, block);
    } else {
        split_window<false, DRAWN>(hold, of, block);
    }
}

template <bool DRAWN>
__global__ void __launch_bounds__(kSplitThreads, 2) matmul_split_whole(const __grid_constant__ Operands both, int64_t of_a) {
    __shared__ Hold hold;
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * kSplitThreads + threadIdx.x;
    for (int64_t i = thread; i < both.zeros; i += static_cast<int64_t>(gridDim.x) * kSplitThreads) both.zeroed[i] = 0;
    if (blockIdx.x < of_a) {
        split_window_of<false>(hold, both.a, blockIdx.x);
    } else {
        split_window_of<DRAWN>(hold, both.b, blockIdx.x - of_a);
    }
}

inline cudaError_t split_whole(const Operands& both, cudaStream_t stream) {
    const Window window(both.b.stages);
    const int64_t of_a = window.blocks(both.a), blocks = of_a + window.blocks(both.b);
    if (blocks > kMostBlocks) return cudaErrorInvalidValue;
    const auto kernel = both.b.drawn ? matmul_split_whole<true> : matmul_split_whole<false>;
    kernel<<<static_cast<unsigned>(blocks), kSplitThreads, 0, stream>>>(both, of_a);
    return cudaGetLastError();
}

}  // namespace kernelwright::matmul
