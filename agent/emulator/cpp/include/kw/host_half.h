// c10::Half and c10::BFloat16: 16-bit storage, arithmetic in float. If NVIDIA's __half and __nv_bfloat16 are
// available, the types convert both ways, as torch's do under nvcc.
#pragma once
#ifdef __CUDACC__
#include "kw/device_sixteen_bit.h"  // nvcc's definitions, which kernels use too
#else

#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>
#include <type_traits>

#if __has_include(<cuda_fp16.h>) && defined(KW_DEVICE_UNIT)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define KW_HAS_CUDA_HALF 1
#endif

namespace c10 {
namespace detail {

inline uint32_t float_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline float float_from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Rounds a float to IEEE binary16, to nearest with ties to even.
inline uint16_t half_from_float(float value) {
#ifdef __F16C__
  return static_cast<uint16_t>(__builtin_ia32_vcvtps2ph((__attribute__((vector_size(16))) float){value}, 0)[0]);
#else
  uint32_t bits = float_bits(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  bits &= 0x7fffffffu;
  if (bits >= 0x7f800000u) return sign | 0x7c00u | (bits > 0x7f800000u ? 0x200u : 0u);
  if (bits >= 0x477ff000u) return sign | 0x7c00u;
  if (bits < 0x38800000u) {
    // Subnormal: adding 0.5 aligns the mantissa, so that the FPU rounds it.
    return sign | static_cast<uint16_t>(float_bits(float_from_bits(bits) + 0.5f) - float_bits(0.5f));
  }
  bits += 0xfffu + ((bits >> 13) & 1u);
  return sign | static_cast<uint16_t>((bits - 0x38000000u) >> 13);
#endif
}
inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t rest = half & 0x7fffu;
  if (rest >= 0x7c00u) return float_from_bits(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  if (rest >= 0x400u) return float_from_bits(sign | ((rest << 13) + 0x38000000u));
  return float_from_bits(sign | float_bits(static_cast<float>(rest) * 5.9604644775390625e-8f));
}
inline uint16_t bfloat16_from_float(float value) {
  const uint32_t bits = float_bits(value);
  if (value != value) return 0x7fc0u;
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
inline float bfloat16_to_float(uint16_t bits) { return float_from_bits(static_cast<uint32_t>(bits) << 16); }

}  // namespace detail

#define KW_SIXTEEN_BIT(Type, cuda_type, encode, decode)                                         \
  struct alignas(2) Type {                                                                      \
    uint16_t x;                                                                                 \
    struct from_bits_t {};                                                                      \
    static constexpr from_bits_t from_bits() { return {}; }                                     \
    Type() = default;                                                                           \
    constexpr Type(uint16_t bits, from_bits_t) : x(bits) {}                                     \
    Type(float value) : x(detail::encode(value)) {}                                             \
    operator float() const { return detail::decode(x); }                                        \
    KW_SIXTEEN_BIT_CUDA(Type, cuda_type)                                                        \
  };                                                                                            \
  inline std::ostream& operator<<(std::ostream& o, Type v) { return o << static_cast<float>(v); } \
  inline Type operator-(Type a) { return Type(-static_cast<float>(a)); }                        \
  KW_SIXTEEN_BIT_OP(Type, +)                                                                    \
  KW_SIXTEEN_BIT_OP(Type, -)                                                                    \
  KW_SIXTEEN_BIT_OP(Type, *)                                                                    \
  KW_SIXTEEN_BIT_OP(Type, /)

#define KW_SIXTEEN_BIT_OP(Type, op)                                                                \
  inline Type operator op(Type a, Type b) { return Type(static_cast<float>(a) op static_cast<float>(b)); } \
  inline Type& operator op##=(Type& a, Type b) { return a = a op b; }                              \
  inline float operator op(Type a, float b) { return static_cast<float>(a) op b; }                 \
  inline float operator op(float a, Type b) { return a op static_cast<float>(b); }                 \
  inline double operator op(Type a, double b) { return static_cast<double>(a) op b; }              \
  inline double operator op(double a, Type b) { return a op static_cast<double>(b); }              \
  template <class I, class = std::enable_if_t<std::is_integral_v<I>>>                              \
  Type operator op(Type a, I b) {                                                                  \
    return a op static_cast<Type>(static_cast<float>(b));                                          \
  }                                                                                                \
  template <class I, class = std::enable_if_t<std::is_integral_v<I>>>                              \
  Type operator op(I a, Type b) {                                                                  \
    return static_cast<Type>(static_cast<float>(a)) op b;                                          \
  }

#ifdef KW_HAS_CUDA_HALF
#define KW_SIXTEEN_BIT_CUDA(Type, cuda_type)                              \
  Type(const cuda_type& value) { std::memcpy(&x, &value, 2); }            \
  operator cuda_type() const {                                            \
    cuda_type value;                                                      \
    std::memcpy(static_cast<void*>(&value), &x, 2);                       \
    return value;                                                         \
  }
#else
#define KW_SIXTEEN_BIT_CUDA(Type, cuda_type)
#endif

KW_SIXTEEN_BIT(Half, __half, half_from_float, half_to_float)
KW_SIXTEEN_BIT(BFloat16, __nv_bfloat16, bfloat16_from_float, bfloat16_to_float)

}  // namespace c10

namespace std {
template <>
struct numeric_limits<c10::Half> {
  static constexpr bool is_specialized = true, is_signed = true, has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 11;
  static constexpr c10::Half bits(uint16_t b) { return c10::Half(b, c10::Half::from_bits()); }
  static constexpr c10::Half min() { return bits(0x0400); }
  static constexpr c10::Half max() { return bits(0x7bff); }
  static constexpr c10::Half lowest() { return bits(0xfbff); }
  static constexpr c10::Half epsilon() { return bits(0x1400); }
  static constexpr c10::Half infinity() { return bits(0x7c00); }
  static constexpr c10::Half quiet_NaN() { return bits(0x7e00); }
};
template <>
struct numeric_limits<c10::BFloat16> {
  static constexpr bool is_specialized = true, is_signed = true, has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 8;
  static constexpr c10::BFloat16 bits(uint16_t b) { return c10::BFloat16(b, c10::BFloat16::from_bits()); }
  static constexpr c10::BFloat16 min() { return bits(0x0080); }
  static constexpr c10::BFloat16 max() { return bits(0x7f7f); }
  static constexpr c10::BFloat16 lowest() { return bits(0xff7f); }
  static constexpr c10::BFloat16 epsilon() { return bits(0x3c00); }
  static constexpr c10::BFloat16 infinity() { return bits(0x7f80); }
  static constexpr c10::BFloat16 quiet_NaN() { return bits(0x7fc0); }
};
}  // namespace std

#endif  // __CUDACC__
