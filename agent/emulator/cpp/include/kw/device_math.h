// CUDA's math functions and intrinsics beyond <math.h>. Part of kw/device.h.
//
// The fast intrinsics are composed of approximate instructions (approximate.h) as in CUDA (CUDA C++ Programming Guide,
// "Mathematical Functions"): __expf is ex2 of a product, __powf is ex2 of a product with lg2. Their error is the error
// that NVIDIA documents. Directed rounding computes in higher precision, and takes the next float if the nearest float
// lies on the wrong side.
#pragma once

#include "kw/approximate.h"

#define KW_MATH KW_DEVICE

// The intrinsics are renamed, because the C library declares functions of its own under their names.
#define __expf kw_expf
#define __exp10f kw_exp10f
#define __logf kw_logf
#define __log2f kw_log2f
#define __log10f kw_log10f
#define __powf kw_powf
#define __sinf kw_sinf
#define __cosf kw_cosf
#define __tanf kw_tanf
#define __tanhf kw_tanhf
#define __sincosf kw_sincosf

KW_MATH float __expf(float x) { return kw_ex2_approx(x * 1.4426950408889634f); }
KW_MATH float __exp10f(float x) { return kw_ex2_approx(x * 3.3219280948873623f); }
KW_MATH float __logf(float x) { return kw_lg2_approx(x) * 0.69314718055994531f; }
KW_MATH float __log2f(float x) { return kw_lg2_approx(x); }
KW_MATH float __log10f(float x) { return kw_lg2_approx(x) * 0.30102999566398120f; }
KW_MATH float __powf(float x, float y) { return kw_ex2_approx(y * kw_lg2_approx(x)); }
KW_MATH float __sinf(float x) { return kw_sin_approx(x); }
KW_MATH float __cosf(float x) { return kw_cos_approx(x); }
KW_MATH float __tanf(float x) { return kw_sin_approx(x) / kw_cos_approx(x); }
KW_MATH float __tanhf(float x) { return kw_tanh_approx(x); }
KW_MATH void __sincosf(float x, float* s, float* c) {
    *s = kw_sin_approx(x);
    *c = kw_cos_approx(x);
}
KW_MATH float __fdividef(float x, float y) {
    return fabsf(y) > 0x1p126f && !isinf(y) ? x * 0.0f : x / y;
}
KW_MATH float fdividef(float x, float y) { return x / y; }
KW_MATH float __saturatef(float x) { return x >= 0.0f ? (x <= 1.0f ? x : 1.0f) : 0.0f; }

KW_MATH float rsqrtf(float x) { return 1.0f / sqrtf(x); }
KW_MATH double rsqrt(double x) { return 1.0 / sqrt(x); }
KW_MATH float rsqrt(float x) { return rsqrtf(x); }
KW_MATH float rcbrtf(float x) { return 1.0f / cbrtf(x); }
KW_MATH double rcbrt(double x) { return 1.0 / cbrt(x); }
KW_MATH float rhypotf(float x, float y) { return 1.0f / hypotf(x, y); }
KW_MATH double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
KW_MATH float norm3df(float x, float y, float z) { return hypotf(hypotf(x, y), z); }
KW_MATH double norm3d(double x, double y, double z) { return hypot(hypot(x, y), z); }
KW_MATH float norm4df(float x, float y, float z, float w) { return hypotf(hypotf(x, y), hypotf(z, w)); }
KW_MATH float sinpif(float x) { return static_cast<float>(sin(3.14159265358979323846 * fmod(x, 2.0))); }
KW_MATH float cospif(float x) { return static_cast<float>(cos(3.14159265358979323846 * fmod(x, 2.0))); }
KW_MATH double sinpi(double x) { return sin(3.14159265358979323846 * fmod(x, 2.0)); }
KW_MATH double cospi(double x) { return cos(3.14159265358979323846 * fmod(x, 2.0)); }
KW_MATH float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678118654752f); }
KW_MATH double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
KW_MATH float erfcxf(float x) { return static_cast<float>(exp(static_cast<double>(x) * x) * erfc(x)); }

// Inverts erf by Newton's method, started from Winitzki's approximation ("A handy approximation for the error
// function").
KW_MATH double erfinv(double y) {
    if (!(y > -1.0 && y < 1.0)) return y == 1.0 ? HUGE_VAL : y == -1.0 ? -HUGE_VAL : NAN;
    const double log_term = log1p(-y * y);
    const double half = 2.0 / (M_PI * 0.147) + 0.5 * log_term;
    double x = copysign(sqrt(sqrt(half * half - log_term / 0.147) - half), y);
    for (int step = 0; step < 3; step++) x -= (erf(x) - y) / (M_2_SQRTPI * exp(-x * x));
    return x;
}
KW_MATH float erfinvf(float y) { return static_cast<float>(erfinv(y)); }
KW_MATH double normcdfinv(double p) { return M_SQRT2 * erfinv(2.0 * p - 1.0); }
KW_MATH float normcdfinvf(float p) { return static_cast<float>(normcdfinv(p)); }

// Round a double to a float: down, up and towards zero.
KW_MATH float kw_round_down(double exact) {
    const float nearest = static_cast<float>(exact);
    return nearest > exact ? nextafterf(nearest, -INFINITY) : nearest;
}
KW_MATH float kw_round_up(double exact) {
    const float nearest = static_cast<float>(exact);
    return nearest < exact ? nextafterf(nearest, INFINITY) : nearest;
}
KW_MATH float kw_round_to_zero(double exact) { return exact < 0 ? kw_round_up(exact) : kw_round_down(exact); }

// Returns x, and keeps the compiler from fusing a multiplication and an addition across it. nvcc does not fuse the
// intrinsics that use kw_unfused either.
KW_MATH float kw_unfused(float x) {
    __asm__("" : "+x"(x));
    return x;
}
KW_MATH double kw_unfused(double x) {
    __asm__("" : "+x"(x));
    return x;
}

#define KW_ROUNDED(name, parameters, exact, nearest)                     \
    KW_MATH float name##_rn parameters { return nearest; }               \
    KW_MATH float name##_rd parameters { return kw_round_down(exact); }  \
    KW_MATH float name##_ru parameters { return kw_round_up(exact); }    \
    KW_MATH float name##_rz parameters { return kw_round_to_zero(exact); }
KW_ROUNDED(__fadd, (float x, float y), static_cast<double>(x) + y, kw_unfused(kw_unfused(x) + kw_unfused(y)))
KW_ROUNDED(__fsub, (float x, float y), static_cast<double>(x) - y, kw_unfused(kw_unfused(x) - kw_unfused(y)))
KW_ROUNDED(__fmul, (float x, float y), static_cast<double>(x) * y, kw_unfused(x * y))
KW_ROUNDED(__fdiv, (float x, float y), static_cast<double>(x) / y, x / y)
KW_ROUNDED(__fmaf, (float x, float y, float z), static_cast<double>(x) * y + z, fmaf(x, y, z))
KW_ROUNDED(__fsqrt, (float x), sqrt(static_cast<double>(x)), sqrtf(x))
KW_ROUNDED(__frcp, (float x), 1.0 / x, 1.0f / x)
#undef KW_ROUNDED
KW_MATH float __frsqrt_rn(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
KW_MATH double __dadd_rn(double x, double y) { return kw_unfused(kw_unfused(x) + kw_unfused(y)); }
KW_MATH double __dsub_rn(double x, double y) { return kw_unfused(kw_unfused(x) - kw_unfused(y)); }
KW_MATH double __dmul_rn(double x, double y) { return kw_unfused(x * y); }
KW_MATH double __ddiv_rn(double x, double y) { return x / y; }
KW_MATH double __drcp_rn(double x) { return 1.0 / x; }
KW_MATH double __dsqrt_rn(double x) { return sqrt(x); }
KW_MATH double __fma_rn(double x, double y, double z) { return fma(x, y, z); }

// CUDA's min and max of mixed types, with the usual arithmetic conversions. As in fmin and fmax, a number is preferred
// to NaN.
#define KW_MIN_MAX(A, B, R)                                                              \
    KW_MATH R min(A x, B y) { return static_cast<R>(x) < static_cast<R>(y) ? static_cast<R>(x) : static_cast<R>(y); } \
    KW_MATH R max(A x, B y) { return static_cast<R>(x) > static_cast<R>(y) ? static_cast<R>(x) : static_cast<R>(y); }
KW_MIN_MAX(int, int, int)
KW_MIN_MAX(unsigned, unsigned, unsigned)
KW_MIN_MAX(int, unsigned, unsigned)
KW_MIN_MAX(unsigned, int, unsigned)
KW_MIN_MAX(long, long, long)
KW_MIN_MAX(unsigned long, unsigned long, unsigned long)
KW_MIN_MAX(long, unsigned long, unsigned long)
KW_MIN_MAX(unsigned long, long, unsigned long)
KW_MIN_MAX(long long, long long, long long)
KW_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
KW_MIN_MAX(long long, unsigned long long, unsigned long long)
KW_MIN_MAX(unsigned long long, long long, unsigned long long)
#undef KW_MIN_MAX
KW_MATH float min(float x, float y) { return fminf(x, y); }
KW_MATH float max(float x, float y) { return fmaxf(x, y); }
KW_MATH double min(double x, double y) { return fmin(x, y); }
KW_MATH double max(double x, double y) { return fmax(x, y); }
KW_MATH double min(float x, double y) { return fmin(x, y); }
KW_MATH double max(float x, double y) { return fmax(x, y); }
KW_MATH double min(double x, float y) { return fmin(x, y); }
KW_MATH double max(double x, float y) { return fmax(x, y); }
KW_MATH unsigned umin(unsigned x, unsigned y) { return min(x, y); }
KW_MATH unsigned umax(unsigned x, unsigned y) { return max(x, y); }
KW_MATH long long llmin(long long x, long long y) { return min(x, y); }
KW_MATH long long llmax(long long x, long long y) { return max(x, y); }

// Integer intrinsics. Shift counts and byte selectors follow the CUDA Math API, not C.
KW_MATH int __popc(unsigned x) { return __builtin_popcount(x); }
KW_MATH int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
KW_MATH int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
KW_MATH int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
KW_MATH int __ffs(int x) { return __builtin_ffs(x); }
KW_MATH int __ffsll(long long x) { return __builtin_ffsll(x); }
KW_MATH unsigned long long __brevll(unsigned long long x) {
    unsigned long long reversed = 0;
    for (int bit = 0; bit < 64; bit++) reversed |= (x >> bit & 1) << (63 - bit);
    return reversed;
}
KW_MATH unsigned __brev(unsigned x) { return static_cast<unsigned>(__brevll(x) >> 32); }
KW_MATH unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) result |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return result;
}
KW_MATH unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31) >> 32);
}
KW_MATH unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
KW_MATH int __mul24(int x, int y) { return (x << 8 >> 8) * (y << 8 >> 8); }
KW_MATH unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffffu) * (y & 0xffffffu); }
KW_MATH int __mulhi(int x, int y) { return static_cast<int>(static_cast<long long>(x) * y >> 32); }
KW_MATH unsigned __umulhi(unsigned x, unsigned y) {
    return static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32);
}
KW_MATH long long __mul64hi(long long x, long long y) {
    return static_cast<long long>(static_cast<__int128>(x) * y >> 64);
}
KW_MATH unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(x) * y >> 64);
}
KW_MATH unsigned __sad(int x, int y, unsigned z) { return z + static_cast<unsigned>(x > y ? x - y : y - x); }
KW_MATH unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x > y ? x - y : y - x); }
KW_MATH int __hadd(int x, int y) { return static_cast<int>((static_cast<long long>(x) + y) >> 1); }
KW_MATH int __rhadd(int x, int y) { return static_cast<int>((static_cast<long long>(x) + y + 1) >> 1); }
KW_MATH int __dp4a(int x, int y, int sum) {
    for (int i = 0; i < 32; i += 8) sum += static_cast<signed char>(x >> i) * static_cast<signed char>(y >> i);
    return sum;
}
KW_MATH unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
    for (int i = 0; i < 32; i += 8) sum += (x >> i & 0xff) * (y >> i & 0xff);
    return sum;
}
#undef KW_MATH
