// Conversions with a stated rounding, and reinterpretations of bits. Part of kw/device.h.
//
// On a GPU a conversion to an integer saturates and maps NaN to 0 (PTX ISA, cvt). A CPU's conversion does neither.
#pragma once

namespace kw {

template <class To, class From>
KW_DEVICE To saturate(From x) {
    if (x != x) return 0;
    // `high` is the largest integer or, if that is not representable, one more; hence the comparison with >=.
    const From low = static_cast<From>(std::numeric_limits<To>::min());
    const From high = static_cast<From>(std::numeric_limits<To>::max());
    if (x <= low) return std::numeric_limits<To>::min();
    return x >= high ? std::numeric_limits<To>::max() : static_cast<To>(x);
}

}  // namespace kw

#define KW_TO_INTEGER(from, From, to, To)                                                           \
    KW_DEVICE To __##from##2##to##_rn(From x) { return kw::saturate<To>(static_cast<From>(nearbyint(x))); } \
    KW_DEVICE To __##from##2##to##_rz(From x) { return kw::saturate<To>(static_cast<From>(trunc(x))); }     \
    KW_DEVICE To __##from##2##to##_rd(From x) { return kw::saturate<To>(static_cast<From>(floor(x))); }     \
    KW_DEVICE To __##from##2##to##_ru(From x) { return kw::saturate<To>(static_cast<From>(ceil(x))); }
KW_TO_INTEGER(float, float, int, int)
KW_TO_INTEGER(float, float, uint, unsigned)
KW_TO_INTEGER(float, float, ll, long long)
KW_TO_INTEGER(float, float, ull, unsigned long long)
KW_TO_INTEGER(double, double, int, int)
KW_TO_INTEGER(double, double, uint, unsigned)
KW_TO_INTEGER(double, double, ll, long long)
KW_TO_INTEGER(double, double, ull, unsigned long long)
#undef KW_TO_INTEGER

KW_DEVICE float __int2float_rn(int x) { return static_cast<float>(x); }
KW_DEVICE float __int2float_rz(int x) { return kw_round_to_zero(x); }
KW_DEVICE float __int2float_rd(int x) { return kw_round_down(x); }
KW_DEVICE float __int2float_ru(int x) { return kw_round_up(x); }
KW_DEVICE float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
KW_DEVICE float __uint2float_rz(unsigned x) { return kw_round_to_zero(x); }
KW_DEVICE float __ll2float_rn(long long x) { return static_cast<float>(x); }
KW_DEVICE float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
KW_DEVICE double __int2double_rn(int x) { return x; }
KW_DEVICE double __uint2double_rn(unsigned x) { return x; }
KW_DEVICE double __ll2double_rn(long long x) { return static_cast<double>(x); }
KW_DEVICE double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
KW_DEVICE float __double2float_rn(double x) { return static_cast<float>(x); }
KW_DEVICE float __double2float_rz(double x) { return kw_round_to_zero(x); }
KW_DEVICE float __double2float_rd(double x) { return kw_round_down(x); }
KW_DEVICE float __double2float_ru(double x) { return kw_round_up(x); }

KW_DEVICE int __float_as_int(float x) { return kw::from_bits<int>(kw::to_bits(x)); }
KW_DEVICE unsigned __float_as_uint(float x) { return kw::from_bits<unsigned>(kw::to_bits(x)); }
KW_DEVICE float __int_as_float(int x) { return kw::from_bits<float>(kw::to_bits(x)); }
KW_DEVICE float __uint_as_float(unsigned x) { return kw::from_bits<float>(kw::to_bits(x)); }
KW_DEVICE long long __double_as_longlong(double x) { return kw::from_bits<long long>(kw::to_bits(x)); }
KW_DEVICE double __longlong_as_double(long long x) { return kw::from_bits<double>(kw::to_bits(x)); }
KW_DEVICE int __double2hiint(double x) { return static_cast<int>(kw::to_bits(x) >> 32); }
KW_DEVICE int __double2loint(double x) { return static_cast<int>(kw::to_bits(x)); }
KW_DEVICE double __hiloint2double(int high, int low) {
    return kw::from_bits<double>(static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 | static_cast<uint32_t>(low));
}
