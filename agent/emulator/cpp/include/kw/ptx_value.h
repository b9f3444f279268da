// Conversions between bits and numbers, and the rounding to half, bfloat16 and float. Part of kw/ptx.h.
#pragma once

enum Rounding { kNearest, kZero, kDown, kUp };

template <class T, class U>
KW_PTX T as(U from) {
    static_assert(sizeof(T) == sizeof(U), "same size");
    T to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

KW_PTX float as_float(uint32_t bits) { return as<float>(bits); }
KW_PTX double as_double(uint64_t bits) { return as<double>(bits); }
KW_PTX uint32_t as_bits(float value) { return as<uint32_t>(value); }
KW_PTX uint64_t as_bits(double value) { return as<uint64_t>(value); }
KW_PTX uint32_t as_bits(uint32_t value) { return value; }
KW_PTX uint64_t as_bits(uint64_t value) { return value; }

KW_PTX bool is_nan(float x) { return __builtin_isnan(x); }
KW_PTX bool is_nan(double x) { return __builtin_isnan(x); }

KW_PTX uint16_t low(uint32_t pair) { return static_cast<uint16_t>(pair); }
KW_PTX uint16_t high(uint32_t pair) { return static_cast<uint16_t>(pair >> 16); }
KW_PTX uint32_t pair(uint32_t low_half, uint32_t high_half) { return (low_half & 0xffff) | high_half << 16; }

// Rounding to odd, which sets the last bit of an inexact result. Rounding such a result again, to a type with at least
// two bits less, gives the correctly rounded result (Boldo and Melquiond 2008, "Emulation of FMA").
KW_PTX_CALL double toward(double rounded, double error) {
    const uint64_t bits = as_bits(rounded);
    if (!(error != 0) || __builtin_isinf(rounded) || __builtin_isnan(error) || (bits & 1) != 0) return rounded;
    return as_double((error > 0) == (rounded > 0) ? bits + 1 : bits - 1);
}

KW_PTX_CALL double odd_sum(double a, double b) {
    const double sum = a + b;
    const double rest = sum - a;
    return toward(sum, (a - (sum - rest)) + (b - rest));  // Knuth's two-sum
}

KW_PTX_CALL float odd_float(double x) {
    const float y = static_cast<float>(x);
    const uint32_t bits = as_bits(y);
    if (!(y != x) || __builtin_isnan(x) || (bits & 1) != 0) return y;
    if (y == 0) return as_float(bits + 1);
    return as_float((x > y) == (y > 0) ? bits + 1 : bits - 1);
}

// Rounds to a 16-bit format with an exponent of at most 8 bits. The value is scaled to units in the last place and
// rounded; a carry increments the exponent.
template <int Fraction, int Bias>
KW_PTX_CALL uint16_t narrow(double x, Rounding mode) {
    const uint16_t sign = __builtin_signbit(x) ? 0x8000 : 0;
    const int infinity = (2 * Bias + 1) << Fraction;
    if (__builtin_isnan(x)) return 0x7fff;
    const double magnitude = __builtin_fabs(x);
    if (__builtin_isinf(x)) return static_cast<uint16_t>(sign | infinity);
    int exponent = static_cast<int>(as_bits(magnitude) >> 52) - 1023;
    if (exponent < 1 - Bias) exponent = 1 - Bias;
    if (exponent > Bias + 1) exponent = Bias + 1;
    const double units = magnitude * as_double(static_cast<uint64_t>(1023 + Fraction - exponent) << 52);
    const bool outward = mode == (sign != 0 ? kDown : kUp);
    if (units >= 1 << (Fraction + 2)) {  // far above the largest finite value
        return static_cast<uint16_t>(sign | (mode == kNearest || outward ? infinity : infinity - 1));
    }
    int whole = static_cast<int>(units);
    const double rest = units - whole;
    if (mode == kNearest ? rest > 0.5 || (rest == 0.5 && (whole & 1) != 0) : outward && rest > 0) whole++;
    int bits = ((exponent + Bias - 1) << Fraction) + whole;
    if (bits >= infinity) bits = mode == kNearest || outward ? infinity : infinity - 1;
    return static_cast<uint16_t>(sign | bits);
}

KW_PTX_CALL uint16_t round_to_f16(double x, Rounding mode) { return narrow<10, 15>(x, mode); }
KW_PTX_CALL uint16_t round_to_bf16(double x, Rounding mode) { return narrow<7, 127>(x, mode); }

#ifdef __F16C__
KW_PTX float f16_value(uint16_t bits) {
    typedef short Words __attribute__((vector_size(16)));
    return __builtin_ia32_vcvtph2ps(Words{static_cast<short>(bits)})[0];
}
KW_PTX uint16_t f16_bits(float x) {
    typedef float Floats __attribute__((vector_size(16)));
    return static_cast<uint16_t>(__builtin_ia32_vcvtps2ph(Floats{x}, 0)[0]);
}
#else
KW_PTX_CALL float f16_value(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    const int exponent = bits >> 10 & 31;
    const int fraction = bits & 0x3ff;
    if (exponent == 31) return as_float(sign | 0x7f800000u | static_cast<uint32_t>(fraction) << 13);
    const float unit = as_float(static_cast<uint32_t>(127 - 24 + (exponent > 1 ? exponent - 1 : 0)) << 23);
    return as_float(as_bits(static_cast<float>(fraction + (exponent > 0 ? 1024 : 0)) * unit) | sign);
}
KW_PTX_CALL uint16_t f16_bits(float x) { return round_to_f16(x, kNearest); }
#endif
KW_PTX uint16_t f16_bits(double x) { return f16_bits(odd_float(x)); }

KW_PTX float bf16_value(uint16_t bits) { return as_float(static_cast<uint32_t>(bits) << 16); }
KW_PTX uint16_t bf16_bits(float x) {
    const uint32_t bits = as_bits(x);
    if (__builtin_isnan(x)) return 0x7fff;
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
KW_PTX uint16_t bf16_bits(double x) { return bf16_bits(odd_float(x)); }

// Rounds a double, which is exact or rounded to odd, to a float in the given mode.
KW_PTX_CALL float round_to_float(double x, Rounding mode) {
    const float y = static_cast<float>(x);
    if (mode == kNearest || !(y != x)) return y;
    const bool below = y < x;
    const bool wanted_below = mode == kDown || (mode == kZero && x > 0);
    if (below == wanted_below) return y;
    const uint32_t bits = as_bits(y);
    if (y == 0) return below ? as_float(1) : as_float(0x80000001u);
    return as_float(below == (y > 0) ? bits + 1 : bits - 1);
}

KW_PTX double odd_double(uint64_t value) {
    const uint64_t kept = value >> 53 == 0 ? value : (value >> 11 | ((value & 0x7ff) != 0)) << 11;
    return static_cast<double>(kept);
}
KW_PTX double odd_double(int64_t value) {
    return value < 0 ? -odd_double(0 - static_cast<uint64_t>(value)) : odd_double(static_cast<uint64_t>(value));
}
KW_PTX double odd_double(int32_t value) { return value; }
KW_PTX double odd_double(uint32_t value) { return value; }

template <class T>
KW_PTX_CALL double integer_to_double(T value, Rounding mode) {
    const double nearest = static_cast<double>(value);
    const __int128 error = static_cast<__int128>(value) - static_cast<__int128>(nearest);
    if (mode == kNearest || error == 0) return nearest;
    const bool below = error > 0;
    if (below == (mode == kDown || (mode == kZero && nearest > 0))) return nearest;
    return as_double(below == (nearest > 0) ? as_bits(nearest) + 1 : as_bits(nearest) - 1);
}
