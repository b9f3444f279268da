// Value types of c10 for nvcc: scalar types, devices, array references, numbers, options. They have the layout of
// g++'s headers of equal names, which define the functions that are only declared here.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "kw/host_error.h"
#include "kw/host_half.h"
#include "kw/host_scalars.h"
#include "kw/host_type_map.h"

namespace c10 {

// Complex number like c10's, with the operations that kernels use.
template <class T>
struct alignas(2 * sizeof(T)) complex {
  using value_type = T;
  __host__ __device__ constexpr complex(T real = T(), T imag = T()) : real_(real), imag_(imag) {}
  __host__ __device__ constexpr T real() const { return real_; }
  __host__ __device__ constexpr T imag() const { return imag_; }
  __host__ __device__ constexpr void real(T value) { real_ = value; }
  __host__ __device__ constexpr void imag(T value) { imag_ = value; }
  __host__ __device__ constexpr complex& operator+=(complex b) { return *this = complex(real_ + b.real_, imag_ + b.imag_); }
  __host__ __device__ constexpr complex& operator-=(complex b) { return *this = complex(real_ - b.real_, imag_ - b.imag_); }
  __host__ __device__ constexpr complex& operator*=(complex b) {
    return *this = complex(real_ * b.real_ - imag_ * b.imag_, real_ * b.imag_ + imag_ * b.real_);
  }
  __host__ __device__ constexpr complex operator-() const { return complex(-real_, -imag_); }

 private:
  T real_, imag_;
};
template <class T>
__host__ __device__ constexpr complex<T> operator+(complex<T> a, complex<T> b) { return a += b; }
template <class T>
__host__ __device__ constexpr complex<T> operator-(complex<T> a, complex<T> b) { return a -= b; }
template <class T>
__host__ __device__ constexpr complex<T> operator*(complex<T> a, complex<T> b) { return a *= b; }

const char* toString(ScalarType);
size_t elementSize(ScalarType);
bool isFloatingType(ScalarType);
bool isComplexType(ScalarType);
bool isIntegralType(ScalarType, bool with_bool = false);
bool isReducedFloatingType(ScalarType);

struct TypeMeta {
  TypeMeta() = default;
  TypeMeta(ScalarType);
  operator ScalarType() const;
  ScalarType toScalarType() const;
  size_t itemsize() const;
  kw::Words name() const;
  ScalarType type = ScalarType::Undefined;
};
bool operator==(TypeMeta, TypeMeta);
bool operator!=(TypeMeta, TypeMeta);
bool operator==(TypeMeta, ScalarType);
bool operator!=(TypeMeta, ScalarType);
bool operator==(ScalarType, TypeMeta);
bool operator!=(ScalarType, TypeMeta);
ScalarType typeMetaToScalarType(TypeMeta);

struct Device {
  Device() = default;
  Device(DeviceType, int index = -1);
  Device(const char*);
  template <class S, class = decltype(std::declval<S>().c_str())>
  Device(const S& text) : Device(text.c_str()) {}
  DeviceType type() const;
  DeviceIndex index() const;
  bool has_index() const;
  bool is_cuda() const;
  bool is_cpu() const;
  kw::Words str() const;
  DeviceType kind = DeviceType::CPU;
  DeviceIndex number = -1;
};
bool operator==(Device, Device);
bool operator!=(Device, Device);

using std::in_place;
using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using std::optional;

}  // namespace c10

#include "kw/host_array_ref.h"

namespace c10 {

class Scalar {
  enum class Kind { Integer, Real, Boolean } kind_ = Kind::Integer;
  int64_t integer_ = 0;
  double real_ = 0;

 public:
  Scalar() = default;
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T value)
      : kind_(std::is_same_v<T, bool>           ? Kind::Boolean
              : std::is_floating_point_v<T> ? Kind::Real
                                            : Kind::Integer),
        integer_(static_cast<int64_t>(value)),
        real_(static_cast<double>(value)) {}
  Scalar(Half);
  Scalar(BFloat16);
  bool isFloatingPoint() const;
  bool isIntegral(bool with_bool) const;
  bool isBoolean() const;
  template <class T>
  T to() const {
    return kind_ == Kind::Real ? static_cast<T>(real_) : static_cast<T>(integer_);
  }
  double toDouble() const;
  float toFloat() const;
  int toInt() const;
  int64_t toLong() const;
  bool toBool() const;
  ScalarType type() const;
};

struct TensorOptions {
  optional<ScalarType> dtype_;
  optional<Device> device_;
  optional<bool> requires_grad_;
  optional<MemoryFormat> memory_format_;

  TensorOptions() = default;
  TensorOptions(ScalarType);
  TensorOptions(TypeMeta);
  TensorOptions(Device);
  TensorOptions(DeviceType);
  TensorOptions(Layout);
  TensorOptions(MemoryFormat);
  TensorOptions dtype(optional<ScalarType>) const;
  TensorOptions dtype(ScalarType) const;
  TensorOptions dtype(TypeMeta) const;
  template <class T>
  TensorOptions dtype() const {
    return dtype(CppTypeToScalarType<T>::value);
  }
  TensorOptions device(optional<Device>) const;
  TensorOptions device(Device) const;
  TensorOptions device(const char*) const;
  TensorOptions device(DeviceType, int index = -1) const;
  TensorOptions device_index(int) const;
  TensorOptions layout(Layout) const;
  TensorOptions pinned_memory(bool) const;
  TensorOptions requires_grad(optional<bool>) const;
  TensorOptions memory_format(MemoryFormat) const;
  TypeMeta dtype() const;
  Device device() const;
  bool has_dtype() const;
  bool has_device() const;
  bool requires_grad() const;
};
TensorOptions dtype(ScalarType);
template <class T>
TensorOptions dtype() {
  return TensorOptions().dtype<T>();
}
TensorOptions device(Device);
TensorOptions layout(Layout);
TensorOptions requires_grad(bool wanted = true);

template <class T>
__host__ __device__ constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
template <class T>
__host__ __device__ constexpr T divup(T a, T b) {
  return ceil_div(a, b);
}
template <class... T>
void maybe_unused(T&&...) {}

}  // namespace c10

namespace at {

using namespace c10;

struct DeprecatedTypeProperties {
  ScalarType type_;
  bool is_cuda() const;
  ScalarType scalarType() const;
  operator ScalarType() const;
  kw::Words toString() const;
};

}  // namespace at

namespace caffe2 {
using c10::TypeMeta;
}
