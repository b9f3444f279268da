// Value types of c10 that need no tensor: scalar types, devices, array references, options.
#pragma once
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kw/host_error.h"
#include "kw/host_half.h"
#include "kw/host_scalars.h"
#include "kw/host_type_map.h"

namespace c10 {

inline const char* toString(ScalarType type) {
  switch (type) {
#define KW_NAME(cpp_type, name, code) \
  case ScalarType::name:              \
    return #name;
    KW_FOR_EACH_SCALAR_TYPE(KW_NAME)
#undef KW_NAME
    case ScalarType::ComplexHalf: return "ComplexHalf";
    case ScalarType::ComplexFloat: return "ComplexFloat";
    case ScalarType::ComplexDouble: return "ComplexDouble";
    default: return "Undefined";
  }
}
inline std::ostream& operator<<(std::ostream& out, ScalarType type) { return out << toString(type); }

inline size_t elementSize(ScalarType type) {
  switch (type) {
#define KW_SIZE(cpp_type, name, code) \
  case ScalarType::name:              \
    return sizeof(cpp_type);
    KW_FOR_EACH_SCALAR_TYPE(KW_SIZE)
#undef KW_SIZE
    case ScalarType::ComplexHalf: return 4;
    case ScalarType::ComplexFloat: return 8;
    case ScalarType::ComplexDouble: return 16;
    default: return 0;
  }
}
inline bool isFloatingType(ScalarType type) {
  return type == kDouble || type == kFloat || type == kHalf || type == kBFloat16;
}
inline bool isComplexType(ScalarType type) {
  return type == ScalarType::ComplexHalf || type == kComplexFloat || type == kComplexDouble;
}
inline bool isIntegralType(ScalarType type, bool with_bool = false) {
  return type == kByte || type == kChar || type == kShort || type == kInt || type == kLong ||
         (with_bool && type == kBool);
}
inline bool isReducedFloatingType(ScalarType type) { return type == kHalf || type == kBFloat16; }

template <>
struct CppTypeToScalarType<std::complex<float>> : std::integral_constant<ScalarType, kComplexFloat> {};
template <>
struct CppTypeToScalarType<std::complex<double>> : std::integral_constant<ScalarType, kComplexDouble> {};

// Result of Tensor::dtype(), which converts to ScalarType and compares with it.
struct TypeMeta {
  ScalarType type = ScalarType::Undefined;
  TypeMeta() = default;
  TypeMeta(ScalarType t) : type(t) {}
  operator ScalarType() const { return type; }
  ScalarType toScalarType() const { return type; }
  size_t itemsize() const { return elementSize(type); }
  std::string name() const { return toString(type); }
  friend bool operator==(TypeMeta a, TypeMeta b) { return a.type == b.type; }
  friend bool operator!=(TypeMeta a, TypeMeta b) { return a.type != b.type; }
  friend bool operator==(TypeMeta a, ScalarType b) { return a.type == b; }
  friend bool operator!=(TypeMeta a, ScalarType b) { return a.type != b; }
  friend bool operator==(ScalarType a, TypeMeta b) { return a == b.type; }
  friend bool operator!=(ScalarType a, TypeMeta b) { return a != b.type; }
  friend std::ostream& operator<<(std::ostream& out, TypeMeta m) { return out << toString(m.type); }
};
inline ScalarType typeMetaToScalarType(TypeMeta meta) { return meta.type; }

struct Device {
  DeviceType kind = DeviceType::CPU;
  DeviceIndex number = -1;
  Device() = default;
  Device(DeviceType type, int index = -1) : kind(type), number(static_cast<DeviceIndex>(index)) {}
  Device(const std::string& text) : kind(kCPU), number(-1) {
    kind = text.rfind("cuda", 0) == 0 ? kCUDA : kCPU;
    if (auto colon = text.find(':'); colon != std::string::npos)
      number = static_cast<DeviceIndex>(std::stoi(text.substr(colon + 1)));
  }
  Device(const char* text) : Device(std::string(text)) {}
  DeviceType type() const { return kind; }
  DeviceIndex index() const { return number; }
  bool has_index() const { return number >= 0; }
  bool is_cuda() const { return kind == kCUDA; }
  bool is_cpu() const { return kind == kCPU; }
  std::string str() const {
    std::string name = kind == kCUDA ? "cuda" : kind == kCPU ? "cpu" : "meta";
    return number < 0 ? name : name + ":" + std::to_string(number);
  }
  friend bool operator==(Device a, Device b) { return a.kind == b.kind && a.number == b.number; }
  friend bool operator!=(Device a, Device b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& out, Device d) { return out << d.str(); }
};

using std::in_place;
using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using std::optional;

}  // namespace c10

#include "kw/host_array_ref.h"

namespace c10 {
template <class T>
std::ostream& operator<<(std::ostream& out, ArrayRef<T> items) {
  out << '[';
  for (size_t i = 0; i < items.size(); ++i) out << (i ? ", " : "") << items[i];
  return out << ']';
}

// A number whose type is known at run time.
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
  Scalar(Half value) : Scalar(static_cast<float>(value)) {}
  Scalar(BFloat16 value) : Scalar(static_cast<float>(value)) {}
  bool isFloatingPoint() const { return kind_ == Kind::Real; }
  bool isIntegral(bool with_bool) const {
    return kind_ == Kind::Integer || (with_bool && kind_ == Kind::Boolean);
  }
  bool isBoolean() const { return kind_ == Kind::Boolean; }
  template <class T>
  T to() const {
    if (isFloatingPoint()) return static_cast<T>(real_);
    return static_cast<T>(integer_);
  }
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int toInt() const { return to<int>(); }
  int64_t toLong() const { return to<int64_t>(); }
  bool toBool() const { return to<bool>(); }
  ScalarType type() const { return isFloatingPoint() ? kDouble : isBoolean() ? kBool : kLong; }
};

class TensorOptions {
 public:
  optional<ScalarType> dtype_;
  optional<Device> device_;
  optional<bool> requires_grad_;
  optional<MemoryFormat> memory_format_;

  TensorOptions() = default;
  TensorOptions(ScalarType type) : dtype_(type) {}
  TensorOptions(TypeMeta type) : dtype_(type.type) {}
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(DeviceType type) : device_(Device(type)) {}
  TensorOptions(Layout) {}
  TensorOptions(MemoryFormat format) : memory_format_(format) {}

  TensorOptions dtype(optional<ScalarType> type) const {
    auto next = *this;
    next.dtype_ = type;
    return next;
  }
  TensorOptions dtype(ScalarType type) const { return dtype(optional<ScalarType>(type)); }
  TensorOptions dtype(TypeMeta type) const { return dtype(type.type); }
  template <class T>
  TensorOptions dtype() const {
    return dtype(CppTypeToScalarType<T>::value);
  }
  TensorOptions device(optional<Device> device) const {
    auto next = *this;
    next.device_ = device;
    return next;
  }
  TensorOptions device(Device where) const { return device(optional<Device>(where)); }
  TensorOptions device(const char* where) const { return device(Device(where)); }
  TensorOptions device(const std::string& where) const { return device(Device(where)); }
  TensorOptions device(DeviceType type, int index = -1) const { return device(Device(type, index)); }
  TensorOptions device_index(int index) const { return device(Device(kCUDA, index)); }
  TensorOptions layout(Layout) const { return *this; }
  TensorOptions pinned_memory(bool) const { return *this; }
  TensorOptions requires_grad(optional<bool> wanted) const {
    auto next = *this;
    next.requires_grad_ = wanted;
    return next;
  }
  TensorOptions memory_format(MemoryFormat format) const {
    auto next = *this;
    next.memory_format_ = format;
    return next;
  }
  TypeMeta dtype() const { return dtype_.value_or(kFloat); }
  Device device() const { return device_.value_or(Device(kCPU)); }
  bool has_dtype() const { return dtype_.has_value(); }
  bool has_device() const { return device_.has_value(); }
  bool requires_grad() const { return requires_grad_.value_or(false); }
};
inline TensorOptions dtype(ScalarType type) { return TensorOptions().dtype(type); }
template <class T>
TensorOptions dtype() {
  return TensorOptions().dtype<T>();
}
inline TensorOptions device(Device where) { return TensorOptions().device(where); }
inline TensorOptions layout(Layout) { return {}; }
inline TensorOptions requires_grad(bool wanted = true) { return TensorOptions().requires_grad(wanted); }

template <class T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
template <class T>
constexpr T divup(T a, T b) {
  return ceil_div(a, b);
}
template <class... T>
void maybe_unused(T&&...) {}

template <class T>
using complex = std::complex<T>;

}  // namespace c10

namespace at {

using namespace c10;

// Result of Tensor::type(), which older code uses.
struct DeprecatedTypeProperties {
  ScalarType type_;
  bool is_cuda() const { return true; }
  ScalarType scalarType() const { return type_; }
  operator ScalarType() const { return type_; }
  std::string toString() const { return std::string("CUDA") + c10::toString(type_) + "Type"; }
};

}  // namespace at

namespace caffe2 {
using c10::TypeMeta;
}
