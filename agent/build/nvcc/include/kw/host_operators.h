// Declarations of ATen's free functions.
#pragma once
#include "kw/host_tensor.h"

#define KW_ARGS_9 \
  KW_ARGS_6, const kw::Arg &g = kw::Arg(), const kw::Arg &h = kw::Arg(), const kw::Arg &i = kw::Arg()

namespace at {

#define KW_FUNCTION(name) Tensor name(KW_ARGS_9);
#include "kw/host_functions.inc"
#undef KW_FUNCTION

using TensorPair = std::tuple<Tensor, Tensor>;
using TensorTriple = std::tuple<Tensor, Tensor, Tensor>;
TensorPair topk(KW_ARGS_9);
TensorPair sort(KW_ARGS_9);
TensorPair mode(KW_ARGS_9);
TensorPair kthvalue(KW_ARGS_9);
TensorPair cummax(KW_ARGS_9);
TensorPair cummin(KW_ARGS_9);
TensorPair aminmax(KW_ARGS_9);
TensorPair var_mean(KW_ARGS_9);
TensorPair std_mean(KW_ARGS_9);
TensorPair adaptive_max_pool2d(KW_ARGS_9);
TensorPair max_pool2d_with_indices(KW_ARGS_9);
TensorTriple native_layer_norm(KW_ARGS_9);
TensorTriple native_group_norm(KW_ARGS_9);
TensorTriple native_batch_norm(KW_ARGS_9);
std::vector<Tensor> split(KW_ARGS_9);
std::vector<Tensor> chunk(KW_ARGS_9);
std::vector<Tensor> unbind(KW_ARGS_9);
std::vector<Tensor> meshgrid(KW_ARGS_9);
std::vector<Tensor> broadcast_tensors(KW_ARGS_9);
bool equal(KW_ARGS_9);
bool allclose(KW_ARGS_9);

#define KW_EXTREMUM(name)                \
  Tensor name(const Tensor&);            \
  Tensor name(const Tensor&, const Tensor&); \
  TensorPair name(const Tensor&, int64_t, bool keepdim = false);
KW_EXTREMUM(max)
KW_EXTREMUM(min)
#undef KW_EXTREMUM

Tensor tensor(std::initializer_list<double>, const TensorOptions& = {});
Tensor tensor(std::initializer_list<float>, const TensorOptions& = {});
Tensor tensor(std::initializer_list<int>, const TensorOptions& = {});
Tensor tensor(std::initializer_list<int64_t>, const TensorOptions& = {});
Tensor from_blob(void*, const kw::Arg&, const kw::Arg& = kw::Arg(), const kw::Arg& = kw::Arg());
int64_t size(const Tensor&, int64_t);
int64_t numel(const Tensor&);

struct NoGradGuard {
  NoGradGuard();
  ~NoGradGuard();
};
struct AutoDispatchBelowAutograd : NoGradGuard {};
struct AutoNonVariableTypeMode : NoGradGuard {
  explicit AutoNonVariableTypeMode(bool);
};

}  // namespace at

#include "kw/host_names.h"
