// c10::Half and c10::BFloat16 for nvcc: 16-bit storage, arithmetic in float, and conversions to and from CUDA's own
// types. The conversions are defined only if the source names one of the types; otherwise they are only declared.
#pragma once
#include <cstdint>
#include <limits>
#include <type_traits>

#ifdef KW_SIXTEEN_BIT_USED
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define KW_FROM_FLOAT(convert, bits) : x(bits(convert(value))) {}
#define KW_TO_FLOAT(convert, bits) { return convert(bits(x)); }
#define KW_NATIVE(Type, cuda_type, as_bits, from_bits)                  \
  __host__ __device__ Type(const cuda_type& v) : x(as_bits(v)) {}       \
  __host__ __device__ operator cuda_type() const { return from_bits(x); }
#else
#define KW_FROM_FLOAT(convert, bits) ;
#define KW_TO_FLOAT(convert, bits) ;
#define KW_NATIVE(Type, cuda_type, as_bits, from_bits)
#endif

namespace c10 {

#define KW_SIXTEEN_BIT_OP(Type, op)                                                                   \
  __host__ __device__ inline Type operator op(Type a, Type b) {                                       \
    return Type(static_cast<float>(a) op static_cast<float>(b));                                      \
  }                                                                                                   \
  __host__ __device__ inline Type& operator op##=(Type& a, Type b) { return a = a op b; }             \
  __host__ __device__ inline float operator op(Type a, float b) { return static_cast<float>(a) op b; } \
  __host__ __device__ inline float operator op(float a, Type b) { return a op static_cast<float>(b); } \
  __host__ __device__ inline float& operator op##=(float& a, Type b) {                                \
    return a = a op static_cast<float>(b);                                                            \
  }                                                                                                   \
  __host__ __device__ inline double operator op(Type a, double b) { return static_cast<float>(a) op b; } \
  __host__ __device__ inline double operator op(double a, Type b) { return a op static_cast<float>(b); } \
  template <class I, class = std::enable_if_t<std::is_integral_v<I>>>                                 \
  __host__ __device__ Type operator op(Type a, I b) {                                                 \
    return a op static_cast<Type>(static_cast<float>(b));                                             \
  }                                                                                                   \
  template <class I, class = std::enable_if_t<std::is_integral_v<I>>>                                 \
  __host__ __device__ Type operator op(I a, Type b) {                                                 \
    return static_cast<Type>(static_cast<float>(a)) op b;                                             \
  }

#define KW_SIXTEEN_BIT(Type, cuda_type, to_float, from_bits_, from_float, as_bits)                    \
  struct alignas(2) Type {                                                                            \
    uint16_t x;                                                                                       \
    struct from_bits_t {};                                                                            \
    __host__ __device__ static constexpr from_bits_t from_bits() { return {}; }                       \
    Type() = default;                                                                                 \
    __host__ __device__ constexpr Type(uint16_t bits, from_bits_t) : x(bits) {}                       \
    __host__ __device__ Type(float value) KW_FROM_FLOAT(from_float, as_bits)                          \
    __host__ __device__ operator float() const KW_TO_FLOAT(to_float, from_bits_)                      \
    KW_NATIVE(Type, cuda_type, as_bits, from_bits_)                                                   \
  };                                                                                                  \
  __host__ __device__ inline Type operator-(Type a) { return Type(-static_cast<float>(a)); }          \
  KW_SIXTEEN_BIT_OP(Type, +)                                                                          \
  KW_SIXTEEN_BIT_OP(Type, -)                                                                          \
  KW_SIXTEEN_BIT_OP(Type, *)                                                                          \
  KW_SIXTEEN_BIT_OP(Type, /)

KW_SIXTEEN_BIT(Half, __half, __half2float, __ushort_as_half, __float2half_rn, __half_as_ushort)
KW_SIXTEEN_BIT(BFloat16, __nv_bfloat16, __bfloat162float, __ushort_as_bfloat16, __float2bfloat16_rn,
               __bfloat16_as_ushort)

}  // namespace c10

namespace std {
#define KW_LIMITS(Type, mantissa, smallest, largest, least, step, infinite, nan)                \
  template <>                                                                                   \
  struct numeric_limits<c10::Type> {                                                            \
    static constexpr bool is_specialized = true, is_signed = true, has_infinity = true;         \
    static constexpr bool has_quiet_NaN = true;                                                 \
    static constexpr int digits = mantissa;                                                     \
    __host__ __device__ static constexpr c10::Type bits(uint16_t b) {                           \
      return c10::Type(b, c10::Type::from_bits());                                              \
    }                                                                                           \
    __host__ __device__ static constexpr c10::Type min() { return bits(smallest); }             \
    __host__ __device__ static constexpr c10::Type max() { return bits(largest); }              \
    __host__ __device__ static constexpr c10::Type lowest() { return bits(least); }             \
    __host__ __device__ static constexpr c10::Type epsilon() { return bits(step); }             \
    __host__ __device__ static constexpr c10::Type infinity() { return bits(infinite); }        \
    __host__ __device__ static constexpr c10::Type quiet_NaN() { return bits(nan); }            \
  };
KW_LIMITS(Half, 11, 0x0400, 0x7bff, 0xfbff, 0x1400, 0x7c00, 0x7e00)
KW_LIMITS(BFloat16, 8, 0x0080, 0x7f7f, 0xff7f, 0x3c00, 0x7f80, 0x7fc0)
}  // namespace std
