// A float matrix as two fp16 matrices for the tensor cores: the split of a row, and the packed layout.
//
// A row is scaled by a power of two so that its largest finite value lies in [2^13, 2^14), then split: hi = fp16(v),
// lo = fp16(v - hi). Small values of a row lose digits only below fp16's smallest step (2^-24 absolute, 2^-38 of the
// largest), so the residual needs no scale of its own.
//
// hi and lo hold 22 bits of float's 24, and three products omit lo * lo. Both errors are small but add up over K if they all
// have one sign. Therefore ties are rounded at random, and all values of the weight are rounded stochastically. The random
// numbers depend on the position alone, so every call gives the same result.
//
// An infinity or NaN goes into lo, next to a hi of 1 with its sign. The products of hi and lo then match float's, since this
// lo meets only the other operand's hi. That hi is 0 where the operand is 0 (or below 2^-39 of its row's largest value) and
// has its sign elsewhere.
//
// The packed layout is that of the products: [tile of 128 rows][64 of K][hi, lo] of 16 KB each, swizzled, 0 past the rows
// and past K. One bulk copy of 32 KB loads a tile without a tensor map. After the tiles come three numbers per row: its
// exponent (packed values are 2^exponent times the row's), how many values keep fewer than 22 bits, and how many are not 0.
#pragma once

#include <cuda_fp16.h>

#include "../../csrc/matrix_sm90.cuh"
#include "sizes.cuh"

namespace kernelwright::linear {

using namespace kernelwright::matrix;

constexpr int kTile = 128;                     // rows of each operand per tile
constexpr int kDepth = 64;                     // K of one stage
constexpr int kHalfBytes = kTile * kRowBytes;  // bytes of hi or lo of one operand's tile
constexpr int kOperandBytes = 2 * kHalfBytes;
constexpr int kSplitValues = 8;                // values per thread and step: 16 bytes of hi, 16 of lo
constexpr int kNothing = 400;                  // exponent of a row of zeros, above all others, so that its sums pass every check

struct Packed {
    unsigned char* tiles;
    int* exponents;
    int* small;
    int* values;
};

inline int64_t padded_rows(int64_t rows) { return ceil_div(rows, kTile) * kTile; }

// Returns the number of stages for K, rounded up to a multiple of `promote`.
inline int64_t stages_of(int64_t k, int promote) { return ceil_div(k, kDepth * promote) * promote; }

inline int64_t tiles_bytes(int64_t rows, int64_t stages) { return padded_rows(rows) * stages * kDepth * 4; }

inline int64_t packed_bytes(int64_t rows, int64_t stages) {
    return on_256_bytes(tiles_bytes(rows, stages) + 3 * padded_rows(rows) * int64_t{sizeof(int)});
}

inline Packed packed_at(const void* memory, int64_t rows, int64_t stages) {
    auto* tiles = static_cast<unsigned char*>(const_cast<void*>(memory));
    auto* exponents = reinterpret_cast<int*>(tiles + tiles_bytes(rows, stages));
    return {tiles, exponents, exponents + padded_rows(rows), exponents + 2 * padded_rows(rows)};
}

__device__ __forceinline__ float finite_size(float v) { return isfinite(v) ? fabsf(v) : 0.0f; }

struct alignas(16) Halves {
    __half v[kSplitValues];
};

// 2^exponent as two factors, since the power overflows float for rows of the smallest values.
struct Scale {
    float first;
    float second;
};

__device__ __forceinline__ float scaled_by(float v, float scale) { return v * scale; }
__device__ __forceinline__ float scaled_by(float v, const Scale& scale) { return v * scale.first * scale.second; }

// Returns 32 random bits for a position, the same in every call.
__device__ __forceinline__ uint32_t drawn_for(uint32_t row, uint32_t depth) {
    uint32_t bits = row * 0x85ebca77u + depth * 0x9e3779b1u;
    bits ^= bits >> 15;
    return bits * 0x2c1b3c6du;
}

constexpr uint32_t kDropped = 0x1fff;  // mantissa bits of a float that fp16 cannot hold

// Rounds v stochastically to 11 bits, up or down.
__device__ __forceinline__ float either_way(float v, uint32_t drawn) {
    return __uint_as_float((__float_as_uint(v) + drawn) & ~kDropped);
}

__device__ __forceinline__ float2 either_way(float2 v, uint32_t drawn) {
    return {either_way(v.x, drawn & kDropped), either_way(v.y, drawn >> 19)};
}

// Returns true if all of eight values are finite. inf - inf is NaN, so the sum of the residuals shows it, unless they were
// rounded stochastically.
__device__ __forceinline__ bool is_finite(__half2 left, const float* v, bool drawn) {
    if (!drawn) {
        const float2 sums = __half22float2(left);
        return sums.x == sums.x && sums.y == sums.y;
    }
    float nothing = 0.0f;
    #pragma unroll
    for (int i = 0; i < 8; ++i) nothing = fmaf(v[i], 0.0f, nothing);
    return nothing == 0.0f;
}

// Writes an infinity or NaN as hi and lo.
__device__ __forceinline__ void put_infinite(float v, __half& hi, __half& lo) {
    const uint32_t bits = __float_as_uint(v), sign = bits >> 16 & 0x8000;
    hi = __ushort_as_half(static_cast<unsigned short>(sign | 0x3c00));
    lo = __ushort_as_half(static_cast<unsigned short>((bits & 0x7fffff) == 0 ? sign | 0x7c00 : 0x7fff));
}

// Splits eight adjacent values from `depth` on. Values that are not finite are fixed up afterwards.
template <bool DRAWN, class Scaling>
__device__ __forceinline__ void split_eight(const float* v, const Scaling& scale, uint32_t row, uint32_t depth, Halves& hi,
                                            Halves& lo) {
    __half2 seen = __float2half2_rn(0.0f);
    uint32_t drawn = drawn_for(row, depth);
    // Factor of the residual that changes the rounding of ties alone. The pattern kTurns rounds one value of each pair up
    // and the other down.
    constexpr float kNudge = 1.0f / 16384;
    constexpr unsigned kTurns = 0x96;
    const float nudge = drawn >> 31 ? kNudge : -kNudge;
    const float nudges[2] = {1.0f + nudge, 1.0f - nudge};
    #pragma unroll
    for (int i = 0; i < 8; i += 2) {
        const float2 scaled = {scaled_by(v[i], scale), scaled_by(v[i + 1], scale)};
        __half2 high, low;
        if (DRAWN) {
            drawn = i == 0 ? drawn : drawn_for(row, depth + i);
            const float2 moved = either_way(scaled, drawn);
            high = __floats2half2_rn(moved.x, moved.y);
            const float2 back = __half22float2(high);
            const float2 rest = either_way(float2{scaled.x - back.x, scaled.y - back.y}, drawn * 0x9e3779b1u);
            low = __floats2half2_rn(rest.x, rest.y);
        } else {
            high = __floats2half2_rn(scaled.x, scaled.y);
            const float2 back = __half22float2(high);
            const float first = nudges[kTurns >> i & 1], second = nudges[kTurns >> (i + 1) & 1];
            low = __floats2half2_rn((scaled.x - back.x) * first, (scaled.y - back.y) * second);
        }
        seen = __hadd2(seen, low);
        hi.v[i] = __low2half(high), hi.v[i + 1] = __high2half(high);
        lo.v[i] = __low2half(low), lo.v[i + 1] = __high2half(low);
    }
    if (is_finite(seen, v, DRAWN)) return;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (!isfinite(v[i])) put_infinite(v[i], hi.v[i], lo.v[i]);
    }
}

// Numbers of values that keep fewer than 22 bits (`small`), and of values that are not 0 (`values`). Small values are
// nonzero and below 2^-2 after scaling, which is `least` before scaling.
struct Counts {
    int small, values;

    __device__ __forceinline__ void add_eight(const float* v, float least) {
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            const bool is_one = v[i] != 0.0f;
            values += is_one ? 1 : 0, small += is_one && fabsf(v[i]) < least ? 1 : 0;
        }
    }
    __device__ __forceinline__ void add(const Counts& other) { small += other.small, values += other.values; }
};

}  // namespace kernelwright::linear
