// Floating-point instructions. Part of kw/ptx.h.
//
// Compiled with -ffp-contract=off, so a multiplication and an addition are fused only for the PTX instruction fma.
#pragma once

#include <fenv.h>

#include "kw/approximate.h"

KW_PTX float flush(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x; }
KW_PTX float flush_half(float x) { return __builtin_fabsf(x) < 0x1p-14f ? __builtin_copysignf(0.0f, x) : x; }

// Clamps to [0, 1]; NaN becomes 0.
KW_PTX float saturate(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
KW_PTX double saturate(double x) { return x > 0 ? (x < 1 ? x : 1.0) : 0.0; }

// Rounds to tf32, a float with 10 fraction bits. Ties go away from zero (rna) or to even (rn).
KW_PTX uint32_t to_tf32(float x, uint32_t more) {
    const uint32_t bits = as_bits(x);
    if ((bits & 0x7f800000u) == 0x7f800000u) return is_nan(x) ? 0x7fffffffu : bits;
    return (bits + more) & 0xffffe000u;
}
KW_PTX uint32_t to_tf32_rna(float x) { return to_tf32(x, 0x1000); }
KW_PTX uint32_t to_tf32_rn(float x) { return to_tf32(x, 0xfff + (as_bits(x) >> 13 & 1)); }
KW_PTX uint32_t to_tf32_rz(float x) { return to_tf32(x, 0); }

// Applies relu: negative values become 0, NaN stays NaN.
KW_PTX float rectify(float x) { return x < 0 ? 0.0f : x; }
KW_PTX double rectify(double x) { return x < 0 ? 0.0 : x; }

KW_PTX float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
KW_PTX double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
// The product of two half or bfloat16 values is exact in a double.
KW_PTX double fma_f16(float a, float b, float c) { return odd_sum(static_cast<double>(a) * b, c); }
KW_PTX double fma_bf16(float a, float b, float c) { return odd_sum(static_cast<double>(a) * b, c); }

// Returns the rounded sum. An exact zero from operands of different signs is -0 when rounding down (IEEE 754, 6.3).
KW_PTX_CALL float sum_rounded(double a, double b, Rounding mode) {
    const float sum = round_to_float(odd_sum(a, b), mode);
    const bool negative = __builtin_signbit(a) || __builtin_signbit(b);
    return sum == 0 && mode == kDown && negative ? -0.0f : sum;
}
KW_PTX float add_rounded(float a, float b, Rounding mode) { return sum_rounded(a, b, mode); }
KW_PTX float sub_rounded(float a, float b, Rounding mode) { return sum_rounded(a, -b, mode); }
KW_PTX float mul_rounded(float a, float b, Rounding mode) { return round_to_float(static_cast<double>(a) * b, mode); }
KW_PTX float fma_rounded(float a, float b, float c, Rounding mode) {
    return sum_rounded(static_cast<double>(a) * b, c, mode);
}
KW_PTX_CALL float div_rounded(float a, float b, Rounding mode) {
    const double quotient = static_cast<double>(a) / b;
    const double rest = __builtin_fma(-quotient, b, a);
    return round_to_float(toward(quotient, b > 0 ? rest : -rest), mode);
}
KW_PTX_CALL float sqrt_rounded(float x, Rounding mode) {
    const double root = __builtin_sqrt(static_cast<double>(x));
    return round_to_float(toward(root, __builtin_fma(-root, root, x)), mode);
}
KW_PTX float rcp_rounded(float x, Rounding mode) { return div_rounded(1.0f, x, mode); }

// Computes in double with the CPU's rounding mode set to `mode`, because no wider type than double exists.
template <class Operate>
static __attribute__((noinline, unused)) double directed(Rounding mode, Operate operate) {
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    fesetround(modes[mode]);
    const double result = operate();
    fesetround(FE_TONEAREST);
    return result;
}
KW_PTX double add_rounded(double a, double b, Rounding mode) {
    volatile double x = a, y = b;
    return directed(mode, [&] { volatile double sum = x + y; return sum; });
}
KW_PTX double sub_rounded(double a, double b, Rounding mode) { return add_rounded(a, -b, mode); }
KW_PTX double mul_rounded(double a, double b, Rounding mode) {
    volatile double x = a, y = b;
    return directed(mode, [&] { volatile double product = x * y; return product; });
}
KW_PTX double fma_rounded(double a, double b, double c, Rounding mode) {
    volatile double x = a, y = b, z = c;
    return directed(mode, [&] { volatile double sum = __builtin_fma(x, y, z); return sum; });
}
KW_PTX double div_rounded(double a, double b, Rounding mode) {
    volatile double x = a, y = b;
    return directed(mode, [&] { volatile double quotient = x / y; return quotient; });
}
KW_PTX double rcp_rounded(double x, Rounding mode) { return div_rounded(1.0, x, mode); }
KW_PTX double sqrt_rounded(double a, Rounding mode) {
    volatile double x = a;
    return directed(mode, [&] { volatile double root = __builtin_sqrt(x); return root; });
}

// div.approx, which gives 0 for a divisor above 2^126 (PTX ISA, div).
KW_PTX float divide_approximately(float a, float b) {
    const float size = __builtin_fabsf(b);
    if (size > 0x1p126f && size <= 0x1.fffffep127f) return __builtin_isfinite(a) ? 0.0f * a * b : __builtin_nanf("");
    return a / b;
}

KW_PTX float abs_of(float x) { return __builtin_fabsf(x); }
KW_PTX double abs_of(double x) { return __builtin_fabs(x); }
KW_PTX float neg_of(float x) { return -x; }
KW_PTX double neg_of(double x) { return -x; }
KW_PTX float copysign_of(float size, float sign) { return __builtin_copysignf(size, sign); }
KW_PTX double copysign_of(double size, double sign) { return __builtin_copysign(size, sign); }

KW_PTX float rcp_of(float x) { return 1.0f / x; }
KW_PTX double rcp_of(double x) { return 1.0 / x; }
KW_PTX float sqrt_of(float x) { return __builtin_sqrtf(x); }
KW_PTX double sqrt_of(double x) { return __builtin_sqrt(x); }
KW_PTX float rsqrt_of(float x) { return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x))); }
KW_PTX double rsqrt_of(double x) { return 1.0 / __builtin_sqrt(x); }
KW_PTX float sin_of(float x) { return kw_sin_approx(x); }
KW_PTX float cos_of(float x) { return kw_cos_approx(x); }
KW_PTX float lg2_of(float x) { return kw_lg2_approx(x); }
KW_PTX float ex2_of(float x) { return kw_ex2_approx(x); }
KW_PTX float tanh_of(float x) { return kw_tanh_approx(x); }

template <class T>
KW_PTX T minimum(T a, T b) {
    if (is_nan(a)) return b;
    if (is_nan(b)) return a;
    if (a == b) return __builtin_signbit(a) ? a : b;  // -0 is less than +0
    return a < b ? a : b;
}
template <class T>
KW_PTX T maximum(T a, T b) {
    if (is_nan(a)) return b;
    if (is_nan(b)) return a;
    if (a == b) return __builtin_signbit(a) ? b : a;
    return a > b ? a : b;
}
template <class T>
KW_PTX T minimum_nan(T a, T b) {
    return is_nan(a) || is_nan(b) ? static_cast<T>(__builtin_nanf("")) : minimum(a, b);
}
template <class T>
KW_PTX T maximum_nan(T a, T b) {
    return is_nan(a) || is_nan(b) ? static_cast<T>(__builtin_nanf("")) : maximum(a, b);
}

// setp.ne, which is false for NaN; setp.neu is the operator != of C++.
template <class T>
KW_PTX bool differ(T a, T b) { return a < b || a > b; }

template <class T> KW_PTX bool is_finite(T x) { return __builtin_isfinite(x); }
template <class T> KW_PTX bool is_infinite(T x) { return __builtin_isinf(x); }
template <class T> KW_PTX bool is_number(T x) { return !is_nan(x); }
template <class T> KW_PTX bool is_notanumber(T x) { return is_nan(x); }
template <class T> KW_PTX bool is_normal(T x) { return __builtin_isnormal(x); }
template <class T> KW_PTX bool is_subnormal(T x) { return x != 0 && __builtin_isfinite(x) && !__builtin_isnormal(x); }

KW_PTX float round_to_integral(float x, Rounding mode) {
    if (mode == kNearest) return __builtin_nearbyintf(x);
    if (mode == kZero) return __builtin_truncf(x);
    return mode == kDown ? __builtin_floorf(x) : __builtin_ceilf(x);
}
KW_PTX double round_to_integral(double x, Rounding mode) {
    if (mode == kNearest) return __builtin_nearbyint(x);
    if (mode == kZero) return __builtin_trunc(x);
    return mode == kDown ? __builtin_floor(x) : __builtin_ceil(x);
}

// Converts to an integer and clamps values out of range. NaN becomes 0, or the sign bit alone if one of the types has
// 64 bits (PTX ISA, cvt).
template <class T, bool Wide, class F>
KW_PTX T to_integer(F value, Rounding mode) {
    constexpr bool is_signed = static_cast<T>(-1) < 0;
    constexpr int bits = sizeof(T) * 8;
    constexpr T least = is_signed ? static_cast<T>(T{1} << (bits - 1)) : T{0};
    constexpr T greatest = static_cast<T>(~least);
    if (is_nan(value)) return Wide ? static_cast<T>(uint64_t{1} << (bits - 1)) : T{0};
    const F whole = round_to_integral(value, mode);
    if (whole <= static_cast<F>(least)) return least;
    const F limit = static_cast<F>(as_double(static_cast<uint64_t>(1023 + bits - is_signed) << 52));
    return whole >= limit ? greatest : static_cast<T>(whole);
}
