// Slim at::Tensor over the C interface. A tensor reads its metadata locally; every operation is a call to Python by
// operator name.
#pragma once
#include <memory>
#include <tuple>
#include <utility>

#include "kw/host_abi.h"
#include "kw/host_accessor.h"
#include "kw/host_types.h"

#pragma GCC visibility push(hidden)

namespace at {
using namespace c10;
class Tensor;
struct TensorIndex;
using TensorList = ArrayRef<Tensor>;
}  // namespace at

namespace kw {

// Functions of the loading process, one variable per extension. kw_open sets it before any code of the candidate runs.
inline const kw_host* host = nullptr;

// Argument of an operator: any type that ATen accepts, as a kw_value. Conversions are implicit, so that `x.view({2,
// -1})` and `at::softmax(x, 1)` compile as with ATen.
class Arg {
  kw_value value_{};
  std::shared_ptr<void> kept_;  // owner of the memory to which value_ points

  struct Parts {
    std::vector<Arg> parts;
    std::vector<kw_value> values;
  };
  void integer(kw_tag tag, int64_t number) {
    value_.tag = tag;
    value_.integer = number;
  }
  void string(kw_tag tag, std::string words);
  template <class Range>
  void list(kw_tag tag, const Range& range) {
    auto kept = std::make_shared<Parts>();
    for (const auto& item : range) {
      kept->parts.emplace_back(item);
      kept->values.push_back(kept->parts.back().value_);
    }
    value_.tag = tag;
    value_.items = kept->values.data();
    value_.length = static_cast<int64_t>(kept->values.size());
    kept_ = std::move(kept);
  }

 public:
  Arg() = default;
  Arg(const Arg&) = default;
  Arg(Arg&&) noexcept = default;
  Arg& operator=(const Arg&) = default;
  Arg& operator=(Arg&&) noexcept = default;
  ~Arg();
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Arg(T number) {
    if constexpr (std::is_same_v<T, bool>) {
      integer(KW_BOOL, number);
    } else if constexpr (std::is_floating_point_v<T>) {
      value_.tag = KW_FLOAT;
      value_.real = static_cast<double>(number);
    } else {
      integer(KW_INT, static_cast<int64_t>(number));
    }
  }
  Arg(c10::Half number) : Arg(static_cast<float>(number)) {}
  Arg(c10::BFloat16 number) : Arg(static_cast<float>(number)) {}
  Arg(const c10::Scalar& number) {
    if (number.isFloatingPoint())
      *this = Arg(number.toDouble());
    else if (number.isBoolean())
      *this = Arg(number.toBool());
    else
      *this = Arg(number.toLong());
  }
  Arg(std::nullopt_t) { value_.tag = KW_NONE; }
  Arg(std::nullptr_t) { value_.tag = KW_NONE; }
  template <class T>
  Arg(const std::optional<T>& maybe) {
    if (maybe)
      *this = Arg(*maybe);
    else
      value_.tag = KW_NONE;
  }
  Arg(const char* words) { string(KW_STRING, words); }
  Arg(std::string words) { string(KW_STRING, std::move(words)); }
  Arg(c10::ScalarType type) { integer(KW_DTYPE, static_cast<int64_t>(type)); }
  Arg(c10::TypeMeta type) : Arg(type.type) {}
  Arg(const at::DeprecatedTypeProperties& type) : Arg(type.scalarType()) {}
  Arg(c10::Device where) { string(KW_DEVICE_NAME, where.str()); }
  Arg(c10::DeviceType where) : Arg(c10::Device(where)) {}
  Arg(c10::MemoryFormat format) { integer(KW_MEMORY_FORMAT, static_cast<int64_t>(format)); }
  Arg(c10::Layout layout) { integer(KW_LAYOUT, static_cast<int64_t>(layout)); }
  Arg(const c10::TensorOptions& options);
  Arg(const at::Tensor& tensor);
  Arg(const at::TensorIndex& index);
  Arg(std::initializer_list<int64_t> numbers);
  Arg(std::initializer_list<at::Tensor> tensors);
  Arg(std::initializer_list<at::TensorIndex> indices);
  template <class T>
  Arg(c10::ArrayRef<T> range) {
    list(KW_LIST, range);
  }
  template <class T>
  Arg(const std::vector<T>& range) {
    list(KW_LIST, range);
  }
  template <class T, size_t N>
  Arg(const std::array<T, N>& range) {
    list(KW_LIST, range);
  }
  static Arg slice(const Arg& start, const Arg& stop, const Arg& step) {
    Arg arg;
    arg.list(KW_SLICE, std::vector<Arg>{start, stop, step});
    return arg;
  }
  static Arg ellipsis() {
    Arg arg;
    arg.value_.tag = KW_ELLIPSIS;
    return arg;
  }

  bool given() const { return value_.tag != KW_ABSENT; }
  // Returns a value that points into this Arg and is valid while the Arg lives.
  kw_value view() const { return value_; }
};

// Makes a tensor that takes over a reference from Python and releases it with its last copy.
at::Tensor adopt(const kw_tensor* raw);

// Calls the operator `name`; trailing absent arguments are dropped. Throws c10::Error.
kw_value call(const char* name, const Arg* const* arguments, int64_t count);
template <class... A>
kw_value call_with(const char* name, const A&... arguments) {
  const Arg* list[] = {&arguments...};
  return call(name, list, sizeof...(arguments));
}

template <class R>
R convert(const kw_value& value);

template <class R, class... A>
R invoke(const char* name, const A&... arguments) {
  if constexpr (std::is_void_v<R>) call_with(name, static_cast<const Arg&>(arguments)...);
  else return convert<R>(call_with(name, static_cast<const Arg&>(arguments)...));
}

}  // namespace kw

#define KW_ARGS_6                                                                          \
  const kw::Arg &a = kw::Arg(), const kw::Arg &b = kw::Arg(), const kw::Arg &c = kw::Arg(), \
                const kw::Arg &d = kw::Arg(), const kw::Arg &e = kw::Arg(), const kw::Arg &f = kw::Arg()

namespace at {

class Tensor {
  std::shared_ptr<kw_tensor> raw_;

  const kw_tensor& raw() const {
    if (!raw_) throw c10::Error("an undefined Tensor was used");
    return *raw_;
  }

 public:
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(const Tensor&) = default;
  Tensor& operator=(Tensor&&) noexcept = default;
  ~Tensor();
  explicit Tensor(std::shared_ptr<kw_tensor> raw) : raw_(std::move(raw)) {}

  bool defined() const { return raw_ != nullptr; }
  void reset() { raw_.reset(); }
  const kw_tensor* unsafe_raw() const { return raw_.get(); }
  bool is_same(const Tensor& other) const { return raw_ == other.raw_; }

  int64_t dim() const { return raw().dim; }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { return raw().numel; }
  IntArrayRef sizes() const { return {raw().sizes, static_cast<size_t>(raw().dim)}; }
  IntArrayRef strides() const { return {raw().strides, static_cast<size_t>(raw().dim)}; }
  int64_t size(int64_t d) const { return raw().sizes[wrap(d)]; }
  int64_t stride(int64_t d) const { return raw().strides[wrap(d)]; }
  ScalarType scalar_type() const { return static_cast<ScalarType>(raw().dtype); }
  TypeMeta dtype() const { return scalar_type(); }
  DeprecatedTypeProperties type() const { return {scalar_type()}; }
  size_t element_size() const { return elementSize(scalar_type()); }
  size_t itemsize() const { return element_size(); }
  size_t nbytes() const { return element_size() * static_cast<size_t>(numel()); }
  Device device() const { return raw().on_gpu ? Device(kCUDA, 0) : Device(kCPU); }
  int64_t get_device() const { return raw().on_gpu ? 0 : -1; }
  bool is_cuda() const { return raw().on_gpu != 0; }
  bool is_cpu() const { return !is_cuda(); }
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  bool is_complex() const { return isComplexType(scalar_type()); }
  bool is_sparse() const { return false; }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
    return (raw().flags & (format == MemoryFormat::ChannelsLast ? KW_CHANNELS_LAST : KW_CONTIGUOUS)) != 0;
  }
  bool is_non_overlapping_and_dense() const { return kw::invoke<bool>("is_non_overlapping_and_dense", *this); }
  MemoryFormat suggest_memory_format() const {
    const bool last = (raw().flags & (KW_CONTIGUOUS | KW_CHANNELS_LAST)) == KW_CHANNELS_LAST;
    return last ? MemoryFormat::ChannelsLast : MemoryFormat::Contiguous;
  }
  bool requires_grad() const { return (raw().flags & KW_REQUIRES_GRAD) != 0; }
  Layout layout() const { return kStrided; }
  TensorOptions options() const { return TensorOptions().dtype(scalar_type()).device(device()); }
  bool has_storage() const { return true; }
  int64_t storage_offset() const { return kw::invoke<int64_t>("storage_offset", *this); }
  std::string toString() const { return type().toString(); }

  // Defined only for the C++ types of torch's dtypes. As with libtorch, data_ptr<__half>() does not link.
  template <class T>
  T* data_ptr() const;
  template <class T>
  const T* const_data_ptr() const {
    return data_ptr<std::remove_const_t<T>>();
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  T* data() const {
    return data_ptr<T>();
  }
  Tensor data() const { return detach(); }
  void* data_ptr() const { return raw().data; }
  const void* const_data_ptr() const { return raw().data; }
  void* mutable_data_ptr() const { return raw().data; }

  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const {
    check_accessor<T>(N);
    return {data_ptr<T>(), raw().sizes, raw().strides};
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class I = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, I> generic_packed_accessor() const {
    check_accessor<T>(N);
    return {data_ptr<T>(), raw().sizes, raw().strides};
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, Traits> packed_accessor32() const {
    return generic_packed_accessor<T, N, Traits, int32_t>();
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, Traits> packed_accessor64() const {
    return generic_packed_accessor<T, N, Traits, int64_t>();
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class I = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, I> packed_accessor() const {
    return generic_packed_accessor<T, N, Traits, I>();
  }

  Scalar item() const {
    if (is_floating_point()) return kw::invoke<double>("item", *this);
    if (scalar_type() == kBool) return kw::invoke<bool>("item", *this);
    return kw::invoke<int64_t>("item", *this);
  }
  template <class T>
  T item() const {
    return item().template to<T>();
  }
  bool equal(const Tensor& other) const { return kw::invoke<bool>("equal", *this, other); }
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8) const {
    return kw::invoke<bool>("allclose", *this, other, rtol, atol);
  }
  bool is_nonzero() const { return kw::invoke<bool>("is_nonzero", *this); }

  Tensor max() const { return kw::invoke<Tensor>("max", *this); }
  Tensor max(const Tensor& other) const { return kw::invoke<Tensor>("max", *this, other); }
  Tensor min() const { return kw::invoke<Tensor>("min", *this); }
  Tensor min(const Tensor& other) const { return kw::invoke<Tensor>("min", *this, other); }
  Tensor median() const { return kw::invoke<Tensor>("median", *this); }
  using Pair = std::tuple<Tensor, Tensor>;
  Pair max(int64_t dim, bool keepdim = false) const { return kw::invoke<Pair>("max", *this, dim, keepdim); }
  Pair min(int64_t dim, bool keepdim = false) const { return kw::invoke<Pair>("min", *this, dim, keepdim); }
  Pair median(int64_t dim, bool keepdim) const { return kw::invoke<Pair>("median", *this, dim, keepdim); }
// cpp/host/library.cpp defines the methods that host_methods.inc and the other lists of this header declare.
  using Tensors = std::vector<Tensor>;
#define KW_FOR_EACH_METHOD_OF_SEVERAL(KW_DO)                                                              \
  KW_DO(Tensor::Pair, topk) KW_DO(Tensor::Pair, sort) KW_DO(Tensor::Pair, mode) KW_DO(Tensor::Pair, kthvalue) \
  KW_DO(Tensor::Pair, cummax) KW_DO(Tensor::Pair, cummin) KW_DO(Tensor::Pair, aminmax)                    \
  KW_DO(Tensor::Tensors, split) KW_DO(Tensor::Tensors, split_with_sizes) KW_DO(Tensor::Tensors, chunk)    \
  KW_DO(Tensor::Tensors, unbind) KW_DO(Tensor::Tensors, tensor_split)
#define KW_METHOD_OF(type, name) type name(KW_ARGS_6) const;
  KW_FOR_EACH_METHOD_OF_SEVERAL(KW_METHOD_OF)
#undef KW_METHOD_OF

#define KW_METHOD(name) Tensor name(KW_ARGS_6) const;
// An in-place method returns the tensor itself, whose metadata may have changed.
#define KW_IN_PLACE_METHOD(name) const Tensor& name(KW_ARGS_6) const;
#include "kw/host_methods.inc"
#undef KW_METHOD
#undef KW_IN_PLACE_METHOD

  Tensor cuda() const { return to(Device(kCUDA)); }
  Tensor cpu() const { return to(Device(kCPU)); }
  Tensor toType(ScalarType type) const { return to(type); }
  Tensor toBackend(int) const { return *this; }
  Tensor variable_data() const { return detach(); }
  Tensor tensor_data() const { return detach(); }
  Tensor index(std::initializer_list<TensorIndex> indices) const;
  Tensor index(const std::vector<TensorIndex>& indices) const {
    return kw::invoke<Tensor>("index", *this, indices);
  }
  Tensor index(ArrayRef<TensorIndex> indices) const { return kw::invoke<Tensor>("index", *this, indices); }
  const Tensor& index_put_(std::initializer_list<TensorIndex> indices, const kw::Arg& value) const;
  Tensor operator[](int64_t i) const { return select(0, i); }
  Tensor operator[](const Tensor& i) const { return kw::invoke<Tensor>("index", *this, kw::Arg({i})); }

  Tensor operator-() const { return neg(); }
  Tensor operator~() const { return bitwise_not(); }
  // The operators take only tensors and numbers, because a parameter of type kw::Arg would accept unrelated types.
#define KW_ASSIGNING(op, method)                                          \
  const Tensor& operator op(const Tensor& other) const { return method(other); } \
  const Tensor& operator op(const Scalar& other) const { return method(other); }
  KW_ASSIGNING(+=, add_)
  KW_ASSIGNING(-=, sub_)
  KW_ASSIGNING(*=, mul_)
  KW_ASSIGNING(/=, div_)
#undef KW_ASSIGNING

 private:
  int64_t wrap(int64_t d) const {
    const int64_t n = dim();
    if (d < -n || d >= n)
      throw c10::IndexError(c10::str("Dimension out of range (expected to be in range of [", -n, ", ", n - 1,
                                     "], but got ", d, ")"));
    return d < 0 ? d + n : d;
  }
  void check_type(ScalarType wanted) const {
    TORCH_CHECK(scalar_type() == wanted, "expected scalar type ", wanted, " but found ", scalar_type());
  }
  template <class T>
  void check_accessor(size_t n) const {
    TORCH_CHECK(dim() == static_cast<int64_t>(n), "TensorAccessor expected ", n, " dims but tensor has ", dim());
  }
  const Tensor& become(const Tensor& answer) const {
    const int64_t handle = raw_->handle;
    kw_tensor fresh = *answer.raw_;
    fresh.handle = handle;
    *raw_ = fresh;
    return *this;
  }
};

#define KW_DATA_PTR(cpp_type, name, code)      \
  template <>                                  \
  inline cpp_type* Tensor::data_ptr() const {  \
    check_type(ScalarType::name);              \
    return static_cast<cpp_type*>(raw().data); \
  }                                            \
  template <>                                  \
  inline const cpp_type* Tensor::data_ptr() const { return data_ptr<cpp_type>(); }
KW_FOR_EACH_SCALAR_TYPE(KW_DATA_PTR)
KW_DATA_PTR(std::complex<float>, ComplexFloat, 9)
KW_DATA_PTR(std::complex<double>, ComplexDouble, 10)
#undef KW_DATA_PTR

struct EllipsisIndexType {};

namespace indexing {
constexpr auto None = std::nullopt;
constexpr EllipsisIndexType Ellipsis{};
struct Slice {
  optional<int64_t> start, stop, step;
  Slice(optional<int64_t> from = {}, optional<int64_t> to = {}, optional<int64_t> by = {})
      : start(from), stop(to), step(by) {}
};
}  // namespace indexing

// One entry of x.index({...}).
struct TensorIndex {
  kw::Arg arg;
  TensorIndex(std::nullopt_t) : arg(std::nullopt) {}
  TensorIndex(EllipsisIndexType) : arg(kw::Arg::ellipsis()) {}
  TensorIndex(const char*) : arg(kw::Arg::ellipsis()) {}
  TensorIndex(const indexing::Slice& s) : arg(kw::Arg::slice(s.start, s.stop, s.step)) {}
  TensorIndex(const Tensor& tensor) : arg(tensor) {}
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  TensorIndex(T number) : arg(number) {}
};
namespace indexing {
using at::TensorIndex;
}

inline Tensor Tensor::index(std::initializer_list<TensorIndex> indices) const {
  return kw::invoke<Tensor>("index", *this, kw::Arg(indices));
}
inline const Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> indices, const kw::Arg& value) const {
  return become(kw::invoke<Tensor>("index_put_", *this, kw::Arg(indices), value));
}

#define KW_FOR_EACH_BINARY(KW_DO)     \
  KW_DO(+, add, b.add(a))             \
  KW_DO(*, mul, b.mul(a))             \
  KW_DO(-, sub, b.neg().add(a))       \
  KW_DO(/, div, b.reciprocal().mul(a)) \
  KW_DO(<, lt, b.gt(a))               \
  KW_DO(<=, le, b.ge(a))              \
  KW_DO(>, gt, b.lt(a))               \
  KW_DO(>=, ge, b.le(a))              \
  KW_DO(==, eq, b.eq(a))              \
  KW_DO(!=, ne, b.ne(a))              \
  KW_DO(&, bitwise_and, b.bitwise_and(a)) \
  KW_DO(|, bitwise_or, b.bitwise_or(a))
#define KW_BINARY(op, method, swapped)                  \
  Tensor operator op(const Tensor& a, const Tensor& b); \
  Tensor operator op(const Tensor& a, const Scalar& b); \
  Tensor operator op(const Scalar& a, const Tensor& b);
KW_FOR_EACH_BINARY(KW_BINARY)
#undef KW_BINARY

inline std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << (tensor.defined() ? kw::invoke<std::string>("__repr__", tensor) : "[ Tensor (undefined) ]");
}

}  // namespace at

namespace kw {

template <class T>
struct Result {
  static T from(const kw_value& value) {
    if constexpr (std::is_same_v<T, at::Tensor>)
      return value.tag == KW_TENSOR ? adopt(value.tensor) : at::Tensor();
    else if constexpr (std::is_same_v<T, std::string>)
      return std::string(value.text, static_cast<size_t>(value.length));
    else if constexpr (std::is_floating_point_v<T>)
      return value.tag == KW_FLOAT ? static_cast<T>(value.real) : static_cast<T>(value.integer);
    else
      return static_cast<T>(value.integer);
  }
};
template <class T>
struct Result<std::vector<T>> {
  static std::vector<T> from(const kw_value& value) {
    std::vector<T> items;
    for (int64_t i = 0; i < value.length; ++i) items.push_back(Result<T>::from(value.items[i]));
    return items;
  }
};
template <class... T>
struct Result<std::tuple<T...>> {
  static std::tuple<T...> from(const kw_value& value) {
    if (value.length != sizeof...(T)) throw c10::Error("an operator answered with another number of results");
    const kw_value* item = value.items;
    return std::tuple<T...>{Result<T>::from(*item++)...};
  }
};
template <class R>
R convert(const kw_value& value) {
  return Result<R>::from(value);
}

}  // namespace kw

#pragma GCC visibility pop
