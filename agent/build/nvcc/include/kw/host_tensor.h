// at::Tensor and the arguments of operators for nvcc, with the layout of g++'s headers, which define the functions that
// are only declared here. Functions defined in both must behave alike, because the linker keeps one of the two.
#pragma once
#include <tuple>

#include "kw/host_abi.h"
#include "kw/host_accessor.h"
#include "kw/host_types.h"

#pragma GCC visibility push(hidden)

namespace at {
struct Tensor;
struct TensorIndex;
using TensorList = ArrayRef<Tensor>;
}  // namespace at

namespace kw {

class Arg;
// Construct or assign the first argument from the second.
void copy(Arg*, const Arg&);
void assign(Arg*, const Arg&);
void copy(at::Tensor*, const at::Tensor&);
void assign(at::Tensor*, const at::Tensor&);
Arg list_of(const Arg* parts, size_t count);

// Argument of an operator, of any type that ATen's functions take.
class Arg {
  kw_value value_{};
  void* kept_[2] = {};

 public:
  Arg() = default;
  Arg(const Arg& other) { copy(this, other); }
  Arg& operator=(const Arg& other) {
    assign(this, other);
    return *this;
  }
  ~Arg();
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Arg(T number) {
    if constexpr (std::is_floating_point_v<T>) {
      value_.tag = KW_FLOAT;
      value_.real = static_cast<double>(number);
    } else {
      value_.tag = std::is_same_v<T, bool> ? KW_BOOL : KW_INT;
      value_.integer = static_cast<int64_t>(number);
    }
  }
  Arg(char letter) {
    const char text[2] = {letter, 0};
    *this = Arg(text);
  }
  Arg(c10::Half);
  Arg(c10::BFloat16);
  Arg(const c10::Scalar&);
  Arg(std::nullopt_t);
  Arg(std::nullptr_t);
  template <class T>
  Arg(const std::optional<T>& maybe) : Arg(std::nullopt) {
    if (maybe) *this = Arg(*maybe);
  }
  Arg(const char*);
  template <class S, class = decltype(std::declval<S>().c_str()), class = void>
  Arg(const S& words) : Arg(words.c_str()) {}
  Arg(c10::ScalarType);
  Arg(c10::TypeMeta);
  Arg(const at::DeprecatedTypeProperties&);
  Arg(c10::Device);
  Arg(c10::DeviceType);
  Arg(c10::MemoryFormat);
  Arg(c10::Layout);
  Arg(const c10::TensorOptions&);
  Arg(const at::Tensor&);
  Arg(const at::TensorIndex&);
  Arg(std::initializer_list<int64_t>);
  Arg(std::initializer_list<at::Tensor>);
  Arg(std::initializer_list<at::TensorIndex>);
  template <class T>
  Arg(c10::ArrayRef<T> range) : Arg(list(range)) {}
  template <class T>
  Arg(const std::vector<T>& range) : Arg(list(range)) {}
  template <class T, size_t N>
  Arg(const std::array<T, N>& range) : Arg(list(range)) {}

 private:
  template <class Range>
  static Arg list(const Range& range) {
    const std::vector<Arg> parts(range.begin(), range.end());
    return list_of(parts.data(), parts.size());
  }
};

}  // namespace kw

#define KW_ARGS_6                                                                          \
  const kw::Arg &a = kw::Arg(), const kw::Arg &b = kw::Arg(), const kw::Arg &c = kw::Arg(), \
                const kw::Arg &d = kw::Arg(), const kw::Arg &e = kw::Arg(), const kw::Arg &f = kw::Arg()

namespace at {

struct Tensor {
  Tensor() = default;
  Tensor(const Tensor& other) { kw::copy(this, other); }
  Tensor& operator=(const Tensor& other) {
    kw::assign(this, other);
    return *this;
  }
  ~Tensor();

  bool defined() const;
  void reset();
  bool is_same(const Tensor&) const;
  int64_t dim() const;
  int64_t ndimension() const;
  int64_t numel() const;
  IntArrayRef sizes() const;
  IntArrayRef strides() const;
  int64_t size(int64_t) const;
  int64_t stride(int64_t) const;
  ScalarType scalar_type() const;
  TypeMeta dtype() const;
  DeprecatedTypeProperties type() const;
  size_t element_size() const;
  size_t itemsize() const;
  size_t nbytes() const;
  Device device() const;
  int64_t get_device() const;
  bool is_cuda() const;
  bool is_cpu() const;
  bool is_floating_point() const;
  bool is_complex() const;
  bool is_sparse() const;
  bool is_contiguous(MemoryFormat = MemoryFormat::Contiguous) const;
  bool is_non_overlapping_and_dense() const;
  MemoryFormat suggest_memory_format() const;
  bool requires_grad() const;
  Layout layout() const;
  TensorOptions options() const;
  bool has_storage() const;
  int64_t storage_offset() const;
  kw::Words toString() const;

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
  Tensor data() const;
  void* data_ptr() const;
  const void* const_data_ptr() const;
  void* mutable_data_ptr() const;

  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const {
    check_dimensions(N);
    return {data_ptr<T>(), sizes().data(), strides().data()};
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class I = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, I> generic_packed_accessor() const {
    check_dimensions(N);
    return {data_ptr<T>(), sizes().data(), strides().data()};
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

  Scalar item() const;
  template <class T>
  T item() const {
    return item().template to<T>();
  }
  bool equal(const Tensor&) const;
  bool allclose(const Tensor&, double rtol = 1e-5, double atol = 1e-8) const;
  bool is_nonzero() const;

  using Pair = std::tuple<Tensor, Tensor>;
#define KW_EXTREMUM(name)              \
  Tensor name() const;                 \
  Tensor name(const Tensor&) const;    \
  Pair name(int64_t, bool keepdim = false) const;
  KW_EXTREMUM(max)
  KW_EXTREMUM(min)
  KW_EXTREMUM(median)
#undef KW_EXTREMUM
#define KW_PAIR_METHOD(name) Pair name(KW_ARGS_6) const;
  KW_PAIR_METHOD(topk)
  KW_PAIR_METHOD(sort)
  KW_PAIR_METHOD(mode)
  KW_PAIR_METHOD(kthvalue)
  KW_PAIR_METHOD(cummax)
  KW_PAIR_METHOD(cummin)
  KW_PAIR_METHOD(aminmax)
#undef KW_PAIR_METHOD
#define KW_LIST_METHOD(name) std::vector<Tensor> name(KW_ARGS_6) const;
  KW_LIST_METHOD(split)
  KW_LIST_METHOD(split_with_sizes)
  KW_LIST_METHOD(chunk)
  KW_LIST_METHOD(unbind)
  KW_LIST_METHOD(tensor_split)
#undef KW_LIST_METHOD
#define KW_METHOD(name) Tensor name(KW_ARGS_6) const;
#define KW_IN_PLACE_METHOD(name) const Tensor& name(KW_ARGS_6) const;
#include "kw/host_methods.inc"
#undef KW_METHOD
#undef KW_IN_PLACE_METHOD

  Tensor cuda() const;
  Tensor cpu() const;
  Tensor toType(ScalarType) const;
  Tensor toBackend(int) const;
  Tensor variable_data() const;
  Tensor tensor_data() const;
  Tensor index(std::initializer_list<TensorIndex>) const;
  Tensor index(const std::vector<TensorIndex>&) const;
  Tensor index(ArrayRef<TensorIndex>) const;
  const Tensor& index_put_(std::initializer_list<TensorIndex>, const kw::Arg&) const;
  Tensor operator[](int64_t) const;
  Tensor operator[](const Tensor&) const;
  Tensor operator-() const;
  Tensor operator~() const;
#define KW_ASSIGNING(op)                         \
  const Tensor& operator op(const Tensor&) const; \
  const Tensor& operator op(const Scalar&) const;
  KW_ASSIGNING(+=)
  KW_ASSIGNING(-=)
  KW_ASSIGNING(*=)
  KW_ASSIGNING(/=)
#undef KW_ASSIGNING

 private:
  void* opaque_[2] = {};

  void check_dimensions(size_t n) const {
    TORCH_CHECK(dim() == static_cast<int64_t>(n), "TensorAccessor expected ", n, " dims but tensor has ", dim());
  }
};

struct EllipsisIndexType {};
namespace indexing {
constexpr auto None = std::nullopt;
constexpr EllipsisIndexType Ellipsis{};
struct Slice {
  Slice(optional<int64_t> = {}, optional<int64_t> = {}, optional<int64_t> = {});
  optional<int64_t> start, stop, step;
};
}  // namespace indexing

struct TensorIndex {
  TensorIndex(std::nullopt_t);
  TensorIndex(EllipsisIndexType);
  TensorIndex(const char*);
  TensorIndex(const indexing::Slice&);
  TensorIndex(const Tensor&);
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  TensorIndex(T number) : arg(number) {}
  kw::Arg arg;
};
namespace indexing {
using at::TensorIndex;
}

#define KW_BINARY(op)                              \
  Tensor operator op(const Tensor&, const Tensor&); \
  Tensor operator op(const Tensor&, const Scalar&); \
  Tensor operator op(const Scalar&, const Tensor&);
KW_BINARY(+)
KW_BINARY(*)
KW_BINARY(-)
KW_BINARY(/)
KW_BINARY(<)
KW_BINARY(<=)
KW_BINARY(>)
KW_BINARY(>=)
KW_BINARY(==)
KW_BINARY(!=)
KW_BINARY(&)
KW_BINARY(|)
#undef KW_BINARY

}  // namespace at

namespace kw {
template <class... A>
[[noreturn]] void refuse_with(Fault kind, const char* condition, const A&... parts) {
  refuse(kind, condition, {Arg(parts)...});
}
template <class... A>
void warn_with(const A&... parts) {
  warn({Arg(parts)...});
}
}  // namespace kw

namespace c10 {
template <class... A>
kw::Words str(const A&... parts) {
  return kw::joined({kw::Arg(parts)...});
}
}  // namespace c10

#pragma GCC visibility pop
