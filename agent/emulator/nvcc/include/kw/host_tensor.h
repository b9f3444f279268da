// at::Tensor, declared. An operator takes anything that ATen might.
#pragma once
#include <tuple>

#include "kw/host_accessor.h"
#include "kw/host_types.h"

namespace at {
struct Tensor;
struct TensorIndex;
using TensorList = ArrayRef<Tensor>;
}  // namespace at

namespace kw {
struct Any {
  Any();
  template <class T>
  Any(const T&);
  Any(std::initializer_list<int64_t>);
  Any(std::initializer_list<at::Tensor>);
  Any(std::initializer_list<at::TensorIndex>);
};
}  // namespace kw

#define KW_ANY_6                                                                            \
  const kw::Any & = kw::Any(), const kw::Any & = kw::Any(), const kw::Any & = kw::Any(),    \
  const kw::Any & = kw::Any(), const kw::Any & = kw::Any(), const kw::Any & = kw::Any()

namespace at {

struct Tensor {
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
  const T* const_data_ptr() const;
  template <class T>
  T* mutable_data_ptr() const;
  template <class T>
  T* data() const;
  Tensor data() const;
  void* data_ptr() const;
  const void* const_data_ptr() const;
  void* mutable_data_ptr() const;

  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const;
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class I = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, I> generic_packed_accessor() const;
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, Traits> packed_accessor32() const;
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, Traits> packed_accessor64() const;
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class I = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, I> packed_accessor() const;

  Scalar item() const;
  template <class T>
  T item() const;
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
#define KW_PAIR_METHOD(name) Pair name(KW_ANY_6) const;
  KW_PAIR_METHOD(topk)
  KW_PAIR_METHOD(sort)
  KW_PAIR_METHOD(mode)
  KW_PAIR_METHOD(kthvalue)
  KW_PAIR_METHOD(cummax)
  KW_PAIR_METHOD(cummin)
  KW_PAIR_METHOD(aminmax)
#undef KW_PAIR_METHOD
#define KW_LIST_METHOD(name) std::vector<Tensor> name(KW_ANY_6) const;
  KW_LIST_METHOD(split)
  KW_LIST_METHOD(split_with_sizes)
  KW_LIST_METHOD(chunk)
  KW_LIST_METHOD(unbind)
  KW_LIST_METHOD(tensor_split)
#undef KW_LIST_METHOD
#define KW_METHOD(name) Tensor name(KW_ANY_6) const;
#define KW_IN_PLACE_METHOD(name) const Tensor& name(KW_ANY_6) const;
#include "kw/host_methods.inc"
#undef KW_METHOD
#undef KW_IN_PLACE_METHOD

  Tensor cuda() const;
  Tensor cpu() const;
  Tensor toType(ScalarType) const;
  Tensor toBackend(int) const;
  Tensor variable_data() const;
  Tensor tensor_data() const;
  Tensor index(const kw::Any&) const;
  const Tensor& index_put_(const kw::Any&, const kw::Any&) const;
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
};

struct EllipsisIndexType {};
namespace indexing {
constexpr auto None = std::nullopt;
constexpr EllipsisIndexType Ellipsis{};
struct Slice {
  Slice(optional<int64_t> = {}, optional<int64_t> = {}, optional<int64_t> = {});
};
}  // namespace indexing

struct TensorIndex {
  TensorIndex(std::nullopt_t);
  TensorIndex(EllipsisIndexType);
  TensorIndex(const char*);
  TensorIndex(const indexing::Slice&);
  TensorIndex(const Tensor&);
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  TensorIndex(T);
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
