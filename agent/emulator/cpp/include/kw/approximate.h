// Approximate instructions of a GPU (ex2, lg2, sin, cos, tanh), with the error that NVIDIA documents.
//
// Each result deviates by up to the documented maximum (PTX ISA; CUDA C++ Programming Guide, "Intrinsic Functions").
// The deviation is a hash of the operand's bits, so it is the same in device code, in translated PTX and in every
// run. Results that hardware gives exactly (powers of two, zero) do not deviate. Exact values come from the C library's
// functions for double where fast_math.h replaces its functions for float.
#pragma once

#define KW_APPROXIMATE static inline __attribute__((unused))

// Returns a pseudo-random deviation in [-1, 1) from the operand's bits.
KW_APPROXIMATE float kw_deviation(float x, unsigned instruction) {
    unsigned bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    bits ^= instruction * 0x9e3779b9u;
    bits = (bits ^ bits >> 16) * 0x7feb352du;
    bits = (bits ^ bits >> 15) * 0x846ca68bu;
    return static_cast<float>(static_cast<int>(bits ^ bits >> 16)) * 0x1p-31f;
}

KW_APPROXIMATE float kw_ex2_approx(float x) {
    const float exact = __builtin_exp2f(x);
    if (x == __builtin_truncf(x) || !__builtin_isfinite(exact)) return exact;
    return exact + exact * (kw_deviation(x, 1) * 0x1p-22f);
}

KW_APPROXIMATE float kw_lg2_approx(float x) {
    const float exact = static_cast<float>(__builtin_log2(static_cast<double>(x)));
    if (exact == __builtin_truncf(exact) || !__builtin_isfinite(exact)) return exact;
    const float error = kw_deviation(x, 2) * 0x1p-22f;
    return x > 0.5f && x < 2.0f ? exact + error : exact + exact * error;
}

// Reduces the argument to within one turn. The number of turns is rounded to a float, so beyond half a turn the error
// grows with the argument.
KW_APPROXIMATE double kw_turns(float x) {
    const double turns = static_cast<double>(x * 0.15915494309189535f);
    return (turns - __builtin_trunc(turns)) * 6.283185307179586;
}

// Returns `exact` with the absolute error `error`, or with a relative error of 2^-11 if that is smaller.
KW_APPROXIMATE float kw_near(float exact, float deviation, float error) {
    const float relative = __builtin_fabsf(exact) * 0x1p-11f;
    return exact + deviation * (relative < error ? relative : error);
}

KW_APPROXIMATE float kw_sin_approx(float x) {
    const bool is_small = __builtin_fabsf(x) <= 3.14159265f;
    const double angle = is_small ? static_cast<double>(x) : kw_turns(x);
    return kw_near(static_cast<float>(__builtin_sin(angle)), kw_deviation(x, 3), 0x1.81p-22f);
}

KW_APPROXIMATE float kw_cos_approx(float x) {
    const bool is_small = __builtin_fabsf(x) <= 3.14159265f;
    const double angle = is_small ? static_cast<double>(x) : kw_turns(x);
    if (angle == 0) return 1.0f;
    return kw_near(static_cast<float>(__builtin_cos(angle)), kw_deviation(x, 4), 0x1.c1p-22f);
}

KW_APPROXIMATE float kw_tanh_approx(float x) {
    const float exact = static_cast<float>(__builtin_tanh(static_cast<double>(x)));
    if (exact == 1.0f || exact == -1.0f) return exact;
    const float result = exact + exact * (kw_deviation(x, 5) * 0x1p-11f);
    return result > 1.0f ? 1.0f : result < -1.0f ? -1.0f : result;
}

#undef KW_APPROXIMATE
