// Exact split of a float into three bf16: 24 bits in three times 8, with float's range, so no scales are needed.
//
// Six of the nine products of two split values are computed. The omitted products, of the second and third parts and of both third
// parts, are at most 2^-24 of the product. With one sign they would add up over the depth, so the first two parts of the columns'
// operand are rounded stochastically (linear_fp32x3/csrc/split_sm90.cuh).
//
// An infinity or NaN goes into the third part, next to a first part of 1 with its sign. The third part meets only the other operand's
// first part, so products match float's, with one exception: a value below 2^-133 has a first part of 0, which gives NaN.
// A value below 2^-109 has fewer than 24 bits, since bf16 ends at 2^-133.
#pragma once

#include <cuda_bf16.h>

#include "../../linear_fp32x3/csrc/split_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kThirds = 3;

// The parts of two adjacent depths; of each part the first depth is in the lower half.
struct Pair {
    uint32_t of[kThirds];
};

__device__ __forceinline__ uint32_t as_bf16(float first, float second) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&both);
}

__device__ __forceinline__ float first_in(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float second_in(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

// Rounds v to a bf16: towards 0 for `drawn` = 0, or stochastically for a random number `drawn` below 2^16.
__device__ __forceinline__ float bf16_beside(float v, uint32_t drawn) { return __uint_as_float((__float_as_uint(v) + drawn) & 0xffff0000u); }

__device__ __forceinline__ uint32_t upper_halves(float first, float second) {
    return __byte_perm(__float_as_uint(first), __float_as_uint(second), 0x7632);
}

// Splits two values to nearest. The third part is NaN if a value or its first part is not finite.
__device__ __forceinline__ Pair nearest_thirds(float first, float second) {
    Pair made;
    #pragma unroll
    for (int part = 0; part < kThirds; ++part) {
        made.of[part] = as_bf16(first, second);
        first -= first_in(made.of[part]), second -= second_in(made.of[part]);
    }
    return made;
}

__device__ __forceinline__ Pair drawn_thirds(float first, float second, uint32_t drawn) {
    Pair made;
    #pragma unroll
    for (int part = 0; part < kThirds - 1; ++part, drawn *= 0x9e3779b1u) {
        const float of_first = bf16_beside(first, drawn & 0xffff), of_second = bf16_beside(second, drawn >> 16);
        made.of[part] = upper_halves(of_first, of_second);
        first -= of_first, second -= of_second;
    }
    made.of[kThirds - 1] = as_bf16(first, second);
    return made;
}

__device__ __forceinline__ bool has_nan(uint32_t pair) { return isnan(first_in(pair)) || isnan(second_in(pair)); }

// Adds the third parts of `pair` to `seen`, which becomes NaN if any of them is NaN.
__device__ __forceinline__ void note_nan(uint32_t& seen, const Pair& pair) {
    const auto as_two = [](const uint32_t& bits) { return *reinterpret_cast<const __nv_bfloat162*>(&bits); };
    const __nv_bfloat162 sum = __hadd2(as_two(seen), as_two(pair.of[kThirds - 1]));
    seen = *reinterpret_cast<const uint32_t*>(&sum);
}

// Splits any value, infinities and NaN included.
__device__ __forceinline__ void put_thirds(uint32_t (&bits)[kThirds], float v) {
    if (isfinite(v)) {
        #pragma unroll
        for (int part = 0; part < kThirds; ++part) {
            const float of = bf16_beside(v, 0);
            bits[part] = __float_as_uint(of) >> 16;
            v -= of;
        }
        return;
    }
    const uint32_t sign = __float_as_uint(v) >> 16 & 0x8000;
    bits[0] = sign | 0x3f80, bits[1] = 0, bits[2] = isnan(v) ? 0x7fff : sign | 0x7f80;
}

// Splits any two values; the slow path for values that the other functions cannot split.
__device__ __noinline__ Pair any_thirds(float first, float second) {
    uint32_t low[kThirds], high[kThirds];
    put_thirds(low, first);
    put_thirds(high, second);
    Pair made;
    #pragma unroll
    for (int part = 0; part < kThirds; ++part) made.of[part] = low[part] | high[part] << 16;
    return made;
}

}  // namespace kernelwright::matmul
