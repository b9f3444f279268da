// The value types of c10: scalar types, devices, array references, numbers, options. Their layout is that of
// the headers of the same names that g++ compiles, which define what has no body here.
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

#define KW_FOR_EACH_SCALAR_TYPE(X) \
  X(uint8_t, Byte, 0)              \
  X(int8_t, Char, 1)               \
  X(int16_t, Short, 2)             \
  X(int, Int, 3)                   \
  X(int64_t, Long, 4)              \
  X(::c10::Half, Half, 5)          \
  X(float, Float, 6)               \
  X(double, Double, 7)             \
  X(bool, Bool, 11)                \
  X(::c10::BFloat16, BFloat16, 15)

namespace c10 {

enum class ScalarType : int8_t {
#define KW_ENUMERATOR(type, name, code) name = code,
  KW_FOR_EACH_SCALAR_TYPE(KW_ENUMERATOR)
#undef KW_ENUMERATOR
  ComplexHalf = 8,
  ComplexFloat = 9,
  ComplexDouble = 10,
  Undefined = 127,
};
#define KW_CONSTANT(type, name, code) constexpr ScalarType k##name = ScalarType::name;
KW_FOR_EACH_SCALAR_TYPE(KW_CONSTANT)
#undef KW_CONSTANT
constexpr ScalarType kComplexFloat = ScalarType::ComplexFloat;
constexpr ScalarType kComplexDouble = ScalarType::ComplexDouble;

const char* toString(ScalarType);
size_t elementSize(ScalarType);
bool isFloatingType(ScalarType);
bool isComplexType(ScalarType);
bool isIntegralType(ScalarType, bool with_bool = false);
bool isReducedFloatingType(ScalarType);

template <class T>
struct CppTypeToScalarType;
template <ScalarType>
struct ScalarTypeToCPPType;
#define KW_MAP(cpp_type, name, code)                                                             \
  template <>                                                                                    \
  struct CppTypeToScalarType<cpp_type> : std::integral_constant<ScalarType, ScalarType::name> {}; \
  template <>                                                                                    \
  struct ScalarTypeToCPPType<ScalarType::name> {                                                 \
    using type = cpp_type;                                                                       \
  };
KW_FOR_EACH_SCALAR_TYPE(KW_MAP)
#undef KW_MAP

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

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, Meta = 9 };
constexpr DeviceType kCPU = DeviceType::CPU;
constexpr DeviceType kCUDA = DeviceType::CUDA;
constexpr DeviceType kMeta = DeviceType::Meta;
using DeviceIndex = int8_t;

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

enum class Layout : int8_t { Strided, Sparse };
constexpr Layout kStrided = Layout::Strided;
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

using std::in_place;
using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using std::optional;

template <class T>
class ArrayRef {
  const T* begin_ = nullptr;
  size_t length_ = 0;

 public:
  using value_type = T;
  using const_iterator = const T*;
  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& one) : begin_(&one), length_(1) {}
  constexpr ArrayRef(const T* data, size_t length) : begin_(data), length_(length) {}
  constexpr ArrayRef(const T* begin, const T* end) : begin_(begin), length_(end - begin) {}
  template <class A>
  ArrayRef(const std::vector<T, A>& items) : begin_(items.data()), length_(items.size()) {}
  template <size_t N>
  constexpr ArrayRef(const std::array<T, N>& items) : begin_(items.data()), length_(N) {}
  template <size_t N>
  constexpr ArrayRef(const T (&items)[N]) : begin_(items), length_(N) {}
  constexpr ArrayRef(const std::initializer_list<T>& items)
      : begin_(items.begin() == items.end() ? nullptr : items.begin()), length_(items.size()) {}
  constexpr const T* begin() const { return begin_; }
  constexpr const T* end() const { return begin_ + length_; }
  constexpr const T* data() const { return begin_; }
  constexpr size_t size() const { return length_; }
  constexpr bool empty() const { return length_ == 0; }
  constexpr const T& operator[](size_t i) const { return begin_[i]; }
  const T& at(size_t i) const {
    TORCH_CHECK(i < length_, "ArrayRef: invalid index Index = ", i, "; Length = ", length_);
    return begin_[i];
  }
  const T& front() const { return at(0); }
  const T& back() const { return at(length_ - 1); }
  ArrayRef slice(size_t from, size_t count) const { return {begin_ + from, count}; }
  ArrayRef slice(size_t from) const { return {begin_ + from, length_ - from}; }
  std::vector<T> vec() const { return {begin(), end()}; }
  bool equals(ArrayRef other) const {
    if (length_ != other.length_) return false;
    for (size_t i = 0; i < length_; ++i)
      if (!(begin_[i] == other.begin_[i])) return false;
    return true;
  }
  friend bool operator==(ArrayRef a, ArrayRef b) { return a.equals(b); }
  friend bool operator!=(ArrayRef a, ArrayRef b) { return !a.equals(b); }
  friend bool operator==(ArrayRef a, const std::vector<T>& b) { return a.equals(ArrayRef(b)); }
  friend bool operator!=(ArrayRef a, const std::vector<T>& b) { return !a.equals(ArrayRef(b)); }
};
using IntArrayRef = ArrayRef<int64_t>;

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
