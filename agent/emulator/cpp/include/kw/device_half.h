// Half and bfloat16 functions that NVIDIA's headers define only under nvcc. Part of kw/device.h.
//
// Each function evaluates the float function on the widened value and rounds once. So it is at least as accurate as on
// a GPU, except for the approximate functions.
#pragma once

#define KW_HALF_UNARY(T, T2, widen, narrow, name, expression)          \
    KW_DEVICE T h##name(const T a) {                                   \
        const float x = widen(a);                                      \
        return narrow(expression);                                     \
    }                                                                  \
    KW_DEVICE T2 h2##name(const T2 a) { return T2(h##name(a.x), h##name(a.y)); }

#define KW_HALF_FAMILY(T, T2, widen, narrow)                                                \
    KW_HALF_UNARY(T, T2, widen, narrow, exp, expf(x))                                       \
    KW_HALF_UNARY(T, T2, widen, narrow, exp2, exp2f(x))                                     \
    KW_HALF_UNARY(T, T2, widen, narrow, exp10, exp10f(x))                                   \
    KW_HALF_UNARY(T, T2, widen, narrow, log, logf(x))                                       \
    KW_HALF_UNARY(T, T2, widen, narrow, log2, log2f(x))                                     \
    KW_HALF_UNARY(T, T2, widen, narrow, log10, log10f(x))                                   \
    KW_HALF_UNARY(T, T2, widen, narrow, sqrt, sqrtf(x))                                     \
    KW_HALF_UNARY(T, T2, widen, narrow, rsqrt, 1.0f / sqrtf(x))                             \
    KW_HALF_UNARY(T, T2, widen, narrow, rcp, 1.0f / x)                                      \
    KW_HALF_UNARY(T, T2, widen, narrow, sin, sinf(x))                                       \
    KW_HALF_UNARY(T, T2, widen, narrow, cos, cosf(x))                                       \
    KW_HALF_UNARY(T, T2, widen, narrow, tanh, tanhf(x))                                     \
    KW_HALF_UNARY(T, T2, widen, narrow, tanh_approx, kw_tanh_approx(x))                              \
    KW_HALF_UNARY(T, T2, widen, narrow, floor, floorf(x))                                   \
    KW_HALF_UNARY(T, T2, widen, narrow, ceil, ceilf(x))                                     \
    KW_HALF_UNARY(T, T2, widen, narrow, trunc, truncf(x))                                   \
    KW_HALF_UNARY(T, T2, widen, narrow, rint, nearbyintf(x))                                \
    KW_DEVICE T __hfma(const T a, const T b, const T c) { return narrow(fmaf(widen(a), widen(b), widen(c))); } \
    KW_DEVICE T __hfma_relu(const T a, const T b, const T c) {                              \
        const float x = fmaf(widen(a), widen(b), widen(c));                                 \
        return narrow(x < 0.0f ? 0.0f : x);                                                 \
    }                                                                                       \
    KW_DEVICE T __hfma_sat(const T a, const T b, const T c) {                               \
        return narrow(__saturatef(fmaf(widen(a), widen(b), widen(c))));                     \
    }                                                                                       \
    KW_DEVICE T2 __hfma2(const T2 a, const T2 b, const T2 c) {                              \
        return T2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));                            \
    }                                                                                       \
    KW_DEVICE T2 __hfma2_relu(const T2 a, const T2 b, const T2 c) {                         \
        return T2(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y));                  \
    }                                                                                       \
    KW_DEVICE T2 __hfma2_sat(const T2 a, const T2 b, const T2 c) {                          \
        return T2(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y));                    \
    }
KW_HALF_FAMILY(__half, __half2, __half2float, __float2half)
KW_HALF_FAMILY(__nv_bfloat16, __nv_bfloat162, __bfloat162float, __float2bfloat16)
#undef KW_HALF_FAMILY
#undef KW_HALF_UNARY

// Conversions to integers. NVIDIA's headers define the _rz forms themselves.
#define KW_HALF_TO_INTEGER(type, T, widen, to, To)                                                        \
    KW_DEVICE To __##type##2##to##_rn(const T a) { return kw::saturate<To>(nearbyintf(widen(a))); }       \
    KW_DEVICE To __##type##2##to##_rd(const T a) { return kw::saturate<To>(floorf(widen(a))); }           \
    KW_DEVICE To __##type##2##to##_ru(const T a) { return kw::saturate<To>(ceilf(widen(a))); }
#define KW_HALF_TO_INTEGERS(type, T, widen)                             \
    KW_HALF_TO_INTEGER(type, T, widen, short, short)                    \
    KW_HALF_TO_INTEGER(type, T, widen, ushort, unsigned short)          \
    KW_HALF_TO_INTEGER(type, T, widen, int, int)                        \
    KW_HALF_TO_INTEGER(type, T, widen, uint, unsigned)                  \
    KW_HALF_TO_INTEGER(type, T, widen, ll, long long)                   \
    KW_HALF_TO_INTEGER(type, T, widen, ull, unsigned long long)
KW_HALF_TO_INTEGERS(half, __half, __half2float)
KW_HALF_TO_INTEGERS(bfloat16, __nv_bfloat16, __bfloat162float)
#undef KW_HALF_TO_INTEGERS
#undef KW_HALF_TO_INTEGER
