// GELU of one element and its derivative.
//
// Hendrycks and Gimpel, arXiv 1606.08415: x * Phi(x), and its tanh approximation.
#pragma once

#include <cuda_runtime.h>

namespace kernelwright::gelu {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kInverseSqrt2Pi = 0.3989422804014327f;
constexpr float kSqrt2OverPi = 0.7978845608028654f;
constexpr float kCubic = 0.044715f;

// Phi, its approximation and the derivatives of both GELUs are functions p with p(x) = 1 - p(-x). They are computed for
// a = |x| on the negative side, where they are small: one exponential times a smooth factor.

// Returns Phi(-a) * exp(a^2 / 2) by a polynomial of degree 12, fitted on [0, 5.5] with Lawson's iteration. Times the
// exponential its error is at most 4.4e-9. Beyond 5.5, Phi(-a) is below 2e-8.
__device__ __forceinline__ float scaled_tail(float a) {
    a = fminf(a, 5.5f);
    float p = 5.852788982e-08f;
    p = fmaf(p, a, -1.603553569e-06f);
    p = fmaf(p, a, 1.989205657e-05f);
    p = fmaf(p, a, -1.497863266e-04f);
    p = fmaf(p, a, 7.796590975e-04f);
    p = fmaf(p, a, -3.055319354e-03f);
    p = fmaf(p, a, 9.659756878e-03f);
    p = fmaf(p, a, -2.606913672e-02f);
    p = fmaf(p, a, 6.226236747e-02f);
    p = fmaf(p, a, -1.329168910e-01f);
    p = fmaf(p, a, 2.499911012e-01f);
    p = fmaf(p, a, -3.989417949e-01f);
    return fmaf(p, a, 0.5f);
}

__device__ __forceinline__ float bell(float x) { return exp2f(x * x * (-0.5f * kLog2E)); }

// Returns exp(-2 u), where 0.5 * (1 + tanh(u)) approximates Phi(a).
__device__ __forceinline__ float tanh_decay(float a) {
    return exp2f(a * fmaf(a * a, -2.0f * kLog2E * kSqrt2OverPi * kCubic, -2.0f * kLog2E * kSqrt2OverPi));
}

// Returns p(x), given p(-|x|).
__device__ __forceinline__ float on_side_of(float x, float below) { return x >= 0.0f ? 1.0f - below : below; }

template <bool kTanh>
__device__ __forceinline__ float value_of(float x) {
    const float a = fabsf(x);
    if (kTanh) {
        const float decay = tanh_decay(a);
        return x * on_side_of(x, __fdividef(decay, 1.0f + decay));
    }
    return x * on_side_of(x, bell(x) * scaled_tail(a));
}

template <bool kTanh>
__device__ __forceinline__ float slope_of(float x) {
    const float a = fabsf(x);
    if (kTanh) {
        const float decay = tanh_decay(a), above = __fdividef(1.0f, 1.0f + decay);
        const float inner = fmaf(a * a, 6.0f * kSqrt2OverPi * kCubic, 2.0f * kSqrt2OverPi);
        return on_side_of(x, decay * above * fmaf(-a * above, inner, 1.0f));
    }
    return on_side_of(x, bell(x) * fmaf(a, -kInverseSqrt2Pi, scaled_tail(a)));
}

}  // namespace kernelwright::gelu
