// ATen's free functions, each of which calls an operator by name. Functions that return one tensor come from a list;
// the others are written out.
#pragma once
#include "kw/host_tensor.h"

#define KW_ARGS_9                                                                                      \
  const kw::Arg &a = kw::Arg(), const kw::Arg &b = kw::Arg(), const kw::Arg &c = kw::Arg(),            \
                const kw::Arg &d = kw::Arg(), const kw::Arg &e = kw::Arg(), const kw::Arg &f = kw::Arg(), \
                const kw::Arg &g = kw::Arg(), const kw::Arg &h = kw::Arg(), const kw::Arg &i = kw::Arg()
namespace at {

// cpp/host/library.cpp defines the functions that host_functions.inc and the other lists of this header declare.
#define KW_FUNCTION(name) Tensor name(KW_ARGS_9);
#include "kw/host_functions.inc"
#undef KW_FUNCTION

using TensorPair = std::tuple<Tensor, Tensor>;
using TensorTriple = std::tuple<Tensor, Tensor, Tensor>;
#define KW_FOR_EACH_FUNCTION_OF_SEVERAL(KW_DO)                                                        \
  KW_DO(TensorPair, topk) KW_DO(TensorPair, sort) KW_DO(TensorPair, mode) KW_DO(TensorPair, kthvalue) \
  KW_DO(TensorPair, cummax) KW_DO(TensorPair, cummin) KW_DO(TensorPair, aminmax)                      \
  KW_DO(TensorPair, var_mean) KW_DO(TensorPair, std_mean) KW_DO(TensorPair, adaptive_max_pool2d)      \
  KW_DO(TensorPair, max_pool2d_with_indices) KW_DO(TensorTriple, native_layer_norm)                   \
  KW_DO(TensorTriple, native_group_norm) KW_DO(TensorTriple, native_batch_norm)                       \
  KW_DO(Tensor::Tensors, split) KW_DO(Tensor::Tensors, chunk) KW_DO(Tensor::Tensors, unbind)          \
  KW_DO(Tensor::Tensors, meshgrid) KW_DO(Tensor::Tensors, broadcast_tensors)                          \
  KW_DO(bool, equal) KW_DO(bool, allclose)
#define KW_FUNCTION_OF(type, name) type name(KW_ARGS_9);
KW_FOR_EACH_FUNCTION_OF_SEVERAL(KW_FUNCTION_OF)
#undef KW_FUNCTION_OF

#define KW_EXTREMUM(name)                                                                             \
  inline Tensor name(const Tensor& x) { return x.name(); }                                            \
  inline Tensor name(const Tensor& x, const Tensor& other) { return x.name(other); }                  \
  inline TensorPair name(const Tensor& x, int64_t dim, bool keepdim = false) { return x.name(dim, keepdim); }
KW_EXTREMUM(max)
KW_EXTREMUM(min)
#undef KW_EXTREMUM

// Overloads for lists of float and integer literals, because a list given to kw::Arg holds integers or tensors.
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

// Makes a tensor on memory of the extension. The deleter is called with the memory once the last tensor on it is freed.
template <class Deleter, class = std::enable_if_t<std::is_invocable_v<Deleter&, void*>>>
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, Deleter deleter, const TensorOptions& options = {}) {
  struct Held {
    void* data;
    Deleter deleter;
    static void end(Held* held) {
      held->deleter(held->data);
      delete held;
    }
  };
  return kw::invoke<Tensor>("from_blob", reinterpret_cast<int64_t>(data), sizes, strides, options,
                            reinterpret_cast<int64_t>(&Held::end),
                            reinterpret_cast<int64_t>(new Held{data, std::move(deleter)}));
}
template <class Deleter, class = std::enable_if_t<std::is_invocable_v<Deleter&, void*>>>
Tensor from_blob(void* data, IntArrayRef sizes, Deleter deleter, const TensorOptions& options = {}) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t k = sizes.size(); k-- > 1;) strides[k - 1] = strides[k] * sizes[k];
  return from_blob(data, sizes, strides, std::move(deleter), options);
}

inline int64_t size(const Tensor& x, int64_t dim) { return x.size(dim); }
inline int64_t numel(const Tensor& x) { return x.numel(); }

// Guard that disables gradients while it lives. Python owns the gradient mode, so the guard calls Python.
struct NoGradGuard {
  NoGradGuard() { kw::invoke<void>("grad_mode", false); }
  ~NoGradGuard() { kw::invoke<void>("grad_mode", nullptr); }
};
struct AutoDispatchBelowAutograd : NoGradGuard {};
struct AutoNonVariableTypeMode : NoGradGuard {
  explicit AutoNonVariableTypeMode(bool) {}
};

}  // namespace at

#include "kw/host_names.h"
