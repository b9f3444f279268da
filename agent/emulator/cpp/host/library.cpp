// Host code shared by all extensions: ATen's operators by name, their arguments, and the exported entry points. It is
// compiled once and linked into each extension, so that an extension's own units need not compile it.
#include "kw/host.h"
#include "kw/host_entry.h"

#pragma GCC visibility push(hidden)

namespace kw {

Arg::~Arg() = default;
Arg::Arg(const c10::TensorOptions& o) {
  const Arg absent;
  list(KW_OPTIONS, std::vector<Arg>{o.dtype_ ? Arg(*o.dtype_) : absent, o.device_ ? Arg(*o.device_) : absent,
                                    o.requires_grad_ ? Arg(*o.requires_grad_) : absent,
                                    o.memory_format_ ? Arg(*o.memory_format_) : absent});
}
Arg::Arg(const at::Tensor& tensor) {
  value_.tag = tensor.defined() ? KW_TENSOR : KW_NONE;
  value_.tensor = tensor.unsafe_raw();
  kept_ = std::make_shared<at::Tensor>(tensor);
}
Arg::Arg(const at::TensorIndex& index) : Arg(index.arg) {}
Arg::Arg(std::initializer_list<int64_t> numbers) { list(KW_LIST, numbers); }
Arg::Arg(std::initializer_list<at::Tensor> tensors) { list(KW_LIST, tensors); }
Arg::Arg(std::initializer_list<at::TensorIndex> indices) { list(KW_LIST, indices); }
void Arg::string(kw_tag tag, std::string words) {
  auto kept = std::make_shared<std::string>(std::move(words));
  value_.tag = tag;
  value_.text = kept->c_str();
  value_.length = static_cast<int64_t>(kept->size());
  kept_ = std::move(kept);
}

kw_value call(const char* name, const Arg* const* arguments, int64_t count) {
  while (count > 0 && !arguments[count - 1]->given()) --count;
  std::vector<kw_value> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(arguments[i]->view());
  kw_value result{};
  if (host->call(name, values.data(), count, &result) != 0)
    throw c10::Error(std::string(result.text, static_cast<size_t>(result.length)));
  return result;
}

at::Tensor adopt(const kw_tensor* raw) {
  if (raw == nullptr) return {};
  return at::Tensor(std::shared_ptr<kw_tensor>(const_cast<kw_tensor*>(raw), [](kw_tensor* tensor) {
    if (host != nullptr) host->release(tensor->handle);
  }));
}

void unimplemented(const char* name, c10::ScalarType type) {
  throw c10::NotImplementedError(c10::str('"', name, "\" not implemented for '", type, "'"));
}

}  // namespace kw

namespace at {

Tensor::~Tensor() = default;

#define KW_TAKES_6                                                                                  \
  const kw::Arg &a, const kw::Arg &b, const kw::Arg &c, const kw::Arg &d, const kw::Arg &e, const kw::Arg &f
#define KW_TAKES_9 KW_TAKES_6, const kw::Arg &g, const kw::Arg &h, const kw::Arg &i
#define KW_PASS_6 a, b, c, d, e, f
#define KW_PASS_9 KW_PASS_6, g, h, i

#define KW_METHOD_OF(type, name) \
  type Tensor::name(KW_TAKES_6) const { return kw::invoke<type>(#name, *this, KW_PASS_6); }
#define KW_METHOD(name) KW_METHOD_OF(Tensor, name)
#define KW_IN_PLACE_METHOD(name) \
  const Tensor& Tensor::name(KW_TAKES_6) const { return become(kw::invoke<Tensor>(#name, *this, KW_PASS_6)); }
#include "kw/host_methods.inc"
KW_FOR_EACH_METHOD_OF_SEVERAL(KW_METHOD_OF)

#define KW_FUNCTION_OF(type, name) \
  type name(KW_TAKES_9) { return kw::invoke<type>(#name, KW_PASS_9); }
#define KW_FUNCTION(name) KW_FUNCTION_OF(Tensor, name)
#include "kw/host_functions.inc"
KW_FOR_EACH_FUNCTION_OF_SEVERAL(KW_FUNCTION_OF)

#define KW_DEFINED(op, method, swapped)                                              \
  Tensor operator op(const Tensor& a, const Tensor& b) { return a.method(b); }       \
  Tensor operator op(const Tensor& a, const Scalar& b) { return a.method(b); }       \
  Tensor operator op(const Scalar& a, const Tensor& b) { return swapped; }
KW_FOR_EACH_BINARY(KW_DEFINED)

}  // namespace at

#pragma GCC visibility pop
