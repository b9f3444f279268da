// ATen's free functions, by name. A function that returns something else than one tensor is
// written out; the rest comes from the list.
#pragma once
#include "kw/host_tensor.h"

#define KW_ARGS_9                                                                                      \
  const kw::Arg &a = kw::Arg(), const kw::Arg &b = kw::Arg(), const kw::Arg &c = kw::Arg(),            \
                const kw::Arg &d = kw::Arg(), const kw::Arg &e = kw::Arg(), const kw::Arg &f = kw::Arg(), \
                const kw::Arg &g = kw::Arg(), const kw::Arg &h = kw::Arg(), const kw::Arg &i = kw::Arg()
#define KW_PASS_9 a, b, c, d, e, f, g, h, i

namespace at {

#define KW_FUNCTION(name) \
  inline Tensor name(KW_ARGS_9) { return kw::invoke<Tensor>(#name, KW_PASS_9); }
#include "kw/host_functions.inc"
#undef KW_FUNCTION

using TensorPair = std::tuple<Tensor, Tensor>;
using TensorTriple = std::tuple<Tensor, Tensor, Tensor>;
#define KW_FUNCTION_OF(type, name) \
  inline type name(KW_ARGS_9) { return kw::invoke<type>(#name, KW_PASS_9); }
KW_FUNCTION_OF(TensorPair, topk)
KW_FUNCTION_OF(TensorPair, sort)
KW_FUNCTION_OF(TensorPair, mode)
KW_FUNCTION_OF(TensorPair, kthvalue)
KW_FUNCTION_OF(TensorPair, cummax)
KW_FUNCTION_OF(TensorPair, cummin)
KW_FUNCTION_OF(TensorPair, aminmax)
KW_FUNCTION_OF(TensorPair, var_mean)
KW_FUNCTION_OF(TensorPair, std_mean)
KW_FUNCTION_OF(TensorPair, adaptive_max_pool2d)
KW_FUNCTION_OF(TensorPair, max_pool2d_with_indices)
KW_FUNCTION_OF(TensorTriple, native_layer_norm)
KW_FUNCTION_OF(TensorTriple, native_group_norm)
KW_FUNCTION_OF(TensorTriple, native_batch_norm)
KW_FUNCTION_OF(std::vector<Tensor>, split)
KW_FUNCTION_OF(std::vector<Tensor>, chunk)
KW_FUNCTION_OF(std::vector<Tensor>, unbind)
KW_FUNCTION_OF(std::vector<Tensor>, meshgrid)
KW_FUNCTION_OF(std::vector<Tensor>, broadcast_tensors)
KW_FUNCTION_OF(bool, equal)
KW_FUNCTION_OF(bool, allclose)
#undef KW_FUNCTION_OF

#define KW_EXTREMUM(name)                                                                             \
  inline Tensor name(const Tensor& x) { return x.name(); }                                            \
  inline Tensor name(const Tensor& x, const Tensor& other) { return x.name(other); }                  \
  inline TensorPair name(const Tensor& x, int64_t dim, bool keepdim = false) { return x.name(dim, keepdim); }
KW_EXTREMUM(max)
KW_EXTREMUM(min)
#undef KW_EXTREMUM

// Literals of floating-point numbers; integers and tensors take kw::Arg's own lists.
inline Tensor tensor(std::initializer_list<double> values, const TensorOptions& options = {}) {
  return kw::invoke<Tensor>("tensor", std::vector<double>(values), options.has_dtype() ? options : options.dtype(kFloat));
}
inline Tensor tensor(std::initializer_list<float> values, const TensorOptions& options = {}) {
  return tensor(ArrayRef<float>(values).vec(), options.has_dtype() ? options : options.dtype(kFloat));
}
inline Tensor tensor(std::initializer_list<int> values, const TensorOptions& options = {}) {
  return kw::invoke<Tensor>("tensor", std::vector<int>(values), options);
}
inline Tensor tensor(std::initializer_list<int64_t> values, const TensorOptions& options = {}) {
  return kw::invoke<Tensor>("tensor", std::vector<int64_t>(values), options);
}

template <class S>
Tensor from_blob(void* data, const S& sizes, const TensorOptions& options = {}) {
  return kw::invoke<Tensor>("from_blob", reinterpret_cast<int64_t>(data), IntArrayRef(sizes).vec(),
                            std::nullopt, options);
}
inline Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {}) {
  return kw::invoke<Tensor>("from_blob", reinterpret_cast<int64_t>(data), sizes, std::nullopt, options);
}
inline Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {}) {
  return kw::invoke<Tensor>("from_blob", reinterpret_cast<int64_t>(data), sizes, strides, options);
}

inline int64_t size(const Tensor& x, int64_t dim) { return x.size(dim); }
inline int64_t numel(const Tensor& x) { return x.numel(); }

// The type in which sums over T are kept.
template <class T, bool on_gpu>
struct AccumulateType {
  using type = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float,
                                  std::conditional_t<std::is_integral_v<T>, int64_t, T>>;
};
template <class T, bool on_gpu>
using acc_type = typename AccumulateType<T, on_gpu>::type;
template <class T>
struct OpMathType {
  using type = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
};
template <class T>
using opmath_type = typename OpMathType<T>::type;

// Grad mode belongs to Python; the guards keep their place in the source.
struct NoGradGuard {
  NoGradGuard() { kw::invoke<void>("grad_mode", false); }
  ~NoGradGuard() { kw::invoke<void>("grad_mode", nullptr); }
};
struct AutoDispatchBelowAutograd : NoGradGuard {};
struct AutoNonVariableTypeMode : NoGradGuard {
  explicit AutoNonVariableTypeMode(bool) {}
};

}  // namespace at

namespace torch {
using namespace at;
using namespace c10;
using at::Tensor;
namespace indexing = at::indexing;
using Dtype = c10::ScalarType;
using c10::dtype;

constexpr auto kUInt8 = c10::kByte;
constexpr auto kInt8 = c10::kChar;
constexpr auto kInt16 = c10::kShort;
constexpr auto kInt32 = c10::kInt;
constexpr auto kInt64 = c10::kLong;
constexpr auto kFloat16 = c10::kHalf;
constexpr auto kFloat32 = c10::kFloat;
constexpr auto kFloat64 = c10::kDouble;
constexpr auto kU8 = c10::kByte;
constexpr auto kI32 = c10::kInt;
constexpr auto kI64 = c10::kLong;
constexpr auto kF16 = c10::kHalf;
constexpr auto kF32 = c10::kFloat;
constexpr auto kF64 = c10::kDouble;
}  // namespace torch
