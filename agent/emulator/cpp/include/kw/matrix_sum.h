// Sums of a tensor core, as measured on a Hopper GPU (docs/tensor-cores.md). Part of kw/ptx.h.
#pragma once

#include <stdint.h>

namespace matrix {

typedef double Four __attribute__((vector_size(32)));
typedef int64_t FourWords __attribute__((vector_size(32)));
typedef int32_t FourInts __attribute__((vector_size(16)));

#define KW_SUM static inline __attribute__((always_inline, unused, no_sanitize("thread")))

constexpr uint32_t kNaN = 0x7fffffff;

// Returns the power of two in x's exponent, by which products of x are aligned. Subnormal numbers count as the format's
// smallest normal number (`least`).
KW_SUM double power_of(double x, double least) {
    if (x == 0) return 0;
    const double power = __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, x) & 0x7ff0000000000000);
    return power < least ? least : power;
}

// Truncates to a float with `kept` fraction bits; zero results are +0.
KW_SUM float cut(double x, int kept) {
    const double size = __builtin_fabs(x);
    if (!(size < 0x1p128)) return static_cast<float>(x);
    if (kept < 23 && size >= 0x1p-126) {
        const uint64_t mask = ~((uint64_t{1} << (52 - kept)) - 1);
        x = __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, x) & mask);
    }
    const float y = static_cast<float>(x);
    const bool more = __builtin_fabs(static_cast<double>(y)) > size;
    const float near = more ? __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, y) - 1) : y;
    return near == 0 ? 0.0f : near;
}

// Returns start + a[0] b[0] + ... + a[Count - 1] b[Count - 1] with exact products. All summands are aligned with the
// largest summand, by the sum of their factors' exponents, and truncated `kept` bits below it. The sum of the truncated
// summands is exact.
template <int Count>
KW_SUM double aligned_sum(const double* a, const double* a_power, const double* b, const double* b_power, double start,
                          double start_power, int kept) {
    static_assert(Count % 4 == 0 && Count <= 32, "whole vectors, sums of 32 bits");
    Four products[Count / 4];
    Four largest = {start_power, 0, 0, 0};
    for (int k = 0; k < Count / 4; k++) {
        Four x, y;
        __builtin_memcpy(&x, a + 4 * k, sizeof x);
        __builtin_memcpy(&y, b + 4 * k, sizeof y);
        products[k] = x * y;
        __builtin_memcpy(&x, a_power + 4 * k, sizeof x);
        __builtin_memcpy(&y, b_power + 4 * k, sizeof y);
        const Four power = x * y;
        largest = power > largest ? power : largest;
    }
    const double first = largest[0] > largest[1] ? largest[0] : largest[1];
    const double second = largest[2] > largest[3] ? largest[2] : largest[3];
    const double top = first > second ? first : second;
    if (top == 0) return 0;
    // 2^kept / top, computed on the exponents, because both are powers of two.
    const uint64_t inverse = (uint64_t{2 * 1023} << 52) + (static_cast<uint64_t>(kept) << 52) - __builtin_bit_cast(uint64_t, top);
    const double scale = __builtin_bit_cast(double, inverse);
    const double unit = top * __builtin_bit_cast(double, static_cast<uint64_t>(1023 - kept) << 52);
    FourInts sum = {static_cast<int32_t>(start * scale), 0, 0, 0};
    for (int k = 0; k < Count / 4; k++) sum += __builtin_convertvector(products[k] * scale, FourInts);
    return static_cast<double>(int64_t{sum[0]} + sum[1] + sum[2] + sum[3]) * unit;
}

// Returns four sums as aligned_sum does, of one row of a with four columns of b. The elements of the four columns for
// one k are adjacent, and those for the next k follow `apart` elements later.
template <int Count>
KW_SUM Four aligned_sums(const double* a, const double* a_power, const double* b, const double* b_power, int apart, Four start,
                         Four start_power, int kept) {
    Four products[Count];
    constexpr double least = 0x1p-600;  // smaller than every power of a summand
    Four largest = {least, least, least, least};
    largest = start_power > largest ? start_power : largest;
    for (int k = 0; k < Count; k++) {
        Four x, power;
        __builtin_memcpy(&x, b + k * apart, sizeof x);
        __builtin_memcpy(&power, b_power + k * apart, sizeof power);
        products[k] = x * a[k];
        power *= a_power[k];
        largest = power > largest ? power : largest;
    }
    const int64_t both = (int64_t{2 * 1023} << 52) + (int64_t{kept} << 52);
    const Four scale = (Four)(both - (FourWords)largest);
    const Four unit = largest * __builtin_bit_cast(double, static_cast<uint64_t>(1023 - kept) << 52);
    FourInts even = __builtin_convertvector(start * scale, FourInts), odd = {};  // a single sum could overflow
    for (int k = 0; k < Count; k += 2) {
        even += __builtin_convertvector(products[k] * scale, FourInts);
        odd += __builtin_convertvector(products[k + 1] * scale, FourInts);
    }
    return (__builtin_convertvector(even, Four) + __builtin_convertvector(odd, Four)) * unit;
}

// Truncates four numbers to floats as `cut` does.
KW_SUM void cut_four(Four x, int kept, float* to) {
    const FourWords size = (FourWords)x & 0x7fffffffffffffff;
    const FourWords plain = (size >= 0x3810000000000000 & size < 0x47f0000000000000) | size == 0;
    if (__builtin_expect((plain[0] & plain[1] & plain[2] & plain[3]) == 0, 0)) {
        for (int i = 0; i < 4; i++) to[i] = cut(x[i], kept);
        return;
    }
    const Four whole = (Four)((FourWords)x & ~((int64_t{1} << (52 - kept)) - 1));
    for (int i = 0; i < 4; i++) to[i] = static_cast<float>(whole[i]);
}

// Returns start + a * b if a summand is infinite or NaN, for which plain additions give the same result.
template <int Count>
__attribute__((noinline, unused, no_sanitize("thread"))) static double special_sum(const double* a, const double* b, double start) {
    for (int k = 0; k < Count; k++) start += a[k] * b[k];
    return start;
}

// Returns a * b + start in double. If operands are NaN, the result is the NaN of b, else of start, else of a, made
// quiet.
KW_SUM double fused(double a, double b, double start) {
    const double sum = __builtin_fma(a, b, start);
    if (__builtin_expect(sum == sum, 1)) return sum;
    const double kept = b != b ? b : start != start ? start : a;
    const uint64_t made = uint64_t{0xfff8} << 48, quiet = uint64_t{8} << 48;
    return __builtin_bit_cast(double, kept != kept ? __builtin_bit_cast(uint64_t, kept) | quiet : made);
}

}  // namespace matrix
