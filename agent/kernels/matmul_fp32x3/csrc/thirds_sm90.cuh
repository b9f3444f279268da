// Floats as three bf16 each, exactly: 24 bits in three times 8, and float's range, so that there are no scales.
//
// Of the nine products of two such values six are made: what is left out, of the second part and the third and of both thirds, is 2^-24
// of the product at most. Where it has one sign it adds up over the depth, so of the columns' operand the first two parts go up or
// down as drawn (linear_fp32x3/csrc/split_sm90.cuh), and what is left out has either sign.
//
// An infinity or NaN goes into the third part, which meets the other operand's first alone, beside a first of 1 with its sign: products
// are then what float's are. One exception: where the other value is below 2^-133 its first part is 0, and gives NaN.
// A value below 2^-109 has fewer than 24 bits, for bf16 ends at 2^-133.
#pragma once

#include <cuda_bf16.h>

#include "../../linear_fp32x3/csrc/split_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kThirds = 3;

// Two neighbours in depth, in each part; the first one in the lower half.
struct Pair {
    uint32_t of[kThirds];
};

__device__ __forceinline__ uint32_t as_bf16(float first, float second) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&both);
}

__device__ __forceinline__ float first_in(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float second_in(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

// The bf16 next to v towards 0 where `drawn` is 0, or further away, the more often the nearer, for a number drawn below 2^16.
__device__ __forceinline__ float bf16_beside(float v, uint32_t drawn) { return __uint_as_float((__float_as_uint(v) + drawn) & 0xffff0000u); }

__device__ __forceinline__ uint32_t upper_halves(float first, float second) {
    return __byte_perm(__float_as_uint(first), __float_as_uint(second), 0x7632);
}

// Of finite values whose first part is finite; else the third is NaN.
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

// What is NaN in the third part of any of these is in the sum.
__device__ __forceinline__ void note_nan(uint32_t& seen, const Pair& pair) {
    const auto as_two = [](const uint32_t& bits) { return *reinterpret_cast<const __nv_bfloat162*>(&bits); };
    const __nv_bfloat162 sum = __hadd2(as_two(seen), as_two(pair.of[kThirds - 1]));
    seen = *reinterpret_cast<const uint32_t*>(&sum);
}

// Of any value.
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

// Of any two, for the few that the others cannot be made of.
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
