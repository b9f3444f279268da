// PYBIND11_MODULE and m.def over the C interface: converts arguments, picks overloads, and reports mismatches in
// pybind11's words.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "kw/host_operators.h"

#pragma GCC visibility push(hidden)

namespace kw {

// Owner of the memory and tensors to which the result of the last call points.
struct Reply {
  std::vector<std::unique_ptr<kw_value[]>> blocks;
  std::vector<at::Tensor> tensors;
  std::deque<std::string> texts;

  void clear() {
    blocks.clear();
    tensors.clear();
    texts.clear();
  }
  kw_value* block(size_t n) {
    blocks.emplace_back(new kw_value[n]());
    return blocks.back().get();
  }
  kw_value words(std::string said) {
    texts.push_back(std::move(said));
    const std::string& text = texts.back();
    kw_value value{};
    value.tag = KW_STRING;
    value.text = text.c_str();
    value.length = static_cast<int64_t>(text.size());
    return value;
  }
};

template <class T>
using plain = std::remove_cv_t<std::remove_reference_t<T>>;

// Sets `number` to `in`, or to the element of a tensor with one element. Returns false for any other tensor.
inline bool number_of(const kw_value& in, kw_value& number) {
  number = in;
  if (in.tag != KW_TENSOR) return true;
  if (in.tensor->numel != 1) return false;
  return host->call("item", &in, 1, &number) == 0;
}

// Conversion of a C++ type: `load` reads it from an argument, `store` writes it as a result, `name` is for messages.
template <class T, class = void>
struct Cast;

template <>
struct Cast<at::Tensor> {
  static std::string name() { return "torch.Tensor"; }
  static bool load(const kw_value& in, at::Tensor& out) {
    // None is not accepted, as with pybind11 and torch's own caster.
    if (in.tag != KW_TENSOR) return false;
    host->retain(in.tensor->handle);
    out = adopt(in.tensor);
    return true;
  }
  static kw_value store(const at::Tensor& out, Reply& reply) {
    kw_value value{};
    value.tag = out.defined() ? KW_TENSOR : KW_NONE;
    value.tensor = out.unsafe_raw();
    reply.tensors.push_back(out);
    return value;
  }
};
template <>
struct Cast<bool> {
  static std::string name() { return "bool"; }
  static bool load(const kw_value& in, bool& out) {
    out = in.integer != 0;
    return in.tag == KW_BOOL;
  }
  static kw_value store(bool out, Reply&) {
    kw_value value{};
    value.tag = KW_BOOL;
    value.integer = out;
    return value;
  }
};
template <class T>
struct Cast<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static std::string name() { return "typing.SupportsInt"; }
  static bool load(const kw_value& given, T& out) {
    kw_value in;
    if (!number_of(given, in)) return false;
    out = static_cast<T>(in.integer);
    const bool fits = static_cast<int64_t>(out) == in.integer && (std::is_signed_v<T> || in.integer >= 0);
    return (in.tag == KW_INT || in.tag == KW_BOOL) && fits;
  }
  static kw_value store(T out, Reply&) {
    kw_value value{};
    value.tag = KW_INT;
    value.integer = static_cast<int64_t>(out);
    return value;
  }
};
template <class T>
struct Cast<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static std::string name() { return "typing.SupportsFloat"; }
  static bool load(const kw_value& given, T& out) {
    kw_value in;
    if (!number_of(given, in)) return false;
    out = static_cast<T>(in.tag == KW_FLOAT ? in.real : static_cast<double>(in.integer));
    return in.tag == KW_FLOAT || in.tag == KW_INT || in.tag == KW_BOOL;
  }
  static kw_value store(T out, Reply&) {
    kw_value value{};
    value.tag = KW_FLOAT;
    value.real = static_cast<double>(out);
    return value;
  }
};
template <>
struct Cast<std::string> {
  static std::string name() { return "str"; }
  static bool load(const kw_value& in, std::string& out) {
    if (in.tag != KW_STRING) return false;
    out.assign(in.text, static_cast<size_t>(in.length));
    return true;
  }
  static kw_value store(const std::string& out, Reply& reply) { return reply.words(out); }
};
template <>
struct Cast<const char*> {
  static std::string name() { return "str"; }
  static kw_value store(const char* out, Reply& reply) { return reply.words(out); }
};
template <>
struct Cast<c10::ScalarType> {
  static std::string name() { return "torch.dtype"; }
  static bool load(const kw_value& in, c10::ScalarType& out) {
    out = static_cast<c10::ScalarType>(in.integer);
    return in.tag == KW_DTYPE;
  }
  static kw_value store(c10::ScalarType out, Reply&) {
    kw_value value{};
    value.tag = KW_DTYPE;
    value.integer = static_cast<int64_t>(out);
    return value;
  }
};
template <>
struct Cast<c10::Device> {
  static std::string name() { return "torch.device"; }
  static bool load(const kw_value& in, c10::Device& out) {
    if (in.tag != KW_DEVICE_NAME && in.tag != KW_STRING) return false;
    out = c10::Device(std::string(in.text, static_cast<size_t>(in.length)));
    return true;
  }
  static kw_value store(const c10::Device& out, Reply& reply) {
    kw_value value = reply.words(out.str());
    value.tag = KW_DEVICE_NAME;
    return value;
  }
};
template <>
struct Cast<c10::Scalar> {
  static std::string name() { return "Union[int, float, bool]"; }
  static bool load(const kw_value& in, c10::Scalar& out) {
    if (in.tag == KW_FLOAT) out = in.real;
    else if (in.tag == KW_BOOL) out = in.integer != 0;
    else out = in.integer;
    return in.tag == KW_FLOAT || in.tag == KW_BOOL || in.tag == KW_INT;
  }
};
template <class T>
struct Cast<std::optional<T>> {
  static std::string name() { return "Optional[" + Cast<T>::name() + "]"; }
  static bool load(const kw_value& in, std::optional<T>& out) {
    if (in.tag == KW_NONE) {
      out.reset();
      return true;
    }
    T item{};
    if (!Cast<T>::load(in, item)) return false;
    out = std::move(item);
    return true;
  }
  static kw_value store(const std::optional<T>& out, Reply& reply) {
    if (out) return Cast<T>::store(*out, reply);
    kw_value value{};
    value.tag = KW_NONE;
    return value;
  }
};
template <class T>
struct Cast<std::vector<T>> {
  static std::string name() { return "List[" + Cast<T>::name() + "]"; }
  static bool load(const kw_value& in, std::vector<T>& out) {
    if (in.tag != KW_LIST && in.tag != KW_TUPLE) return false;
    for (int64_t i = 0; i < in.length; ++i) {
      T item{};
      if (!Cast<T>::load(in.items[i], item)) return false;
      out.push_back(std::move(item));
    }
    return true;
  }
  static kw_value store(const std::vector<T>& out, Reply& reply) {
    kw_value* items = reply.block(out.size());
    for (size_t i = 0; i < out.size(); ++i) items[i] = Cast<T>::store(out[i], reply);
    kw_value value{};
    value.tag = KW_LIST;
    value.items = items;
    value.length = static_cast<int64_t>(out.size());
    return value;
  }
};
template <class T, size_t N>
struct Cast<std::array<T, N>> {
  static std::string name() { return "List[" + Cast<T>::name() + "]"; }
  static bool load(const kw_value& in, std::array<T, N>& out) {
    std::vector<T> items;
    if (!Cast<std::vector<T>>::load(in, items) || items.size() != N) return false;
    std::move(items.begin(), items.end(), out.begin());
    return true;
  }
  static kw_value store(const std::array<T, N>& out, Reply& reply) {
    return Cast<std::vector<T>>::store(std::vector<T>(out.begin(), out.end()), reply);
  }
};
// Type of the variable that holds an argument during the call. For an IntArrayRef parameter it is a vector.
template <class T>
struct Holder {
  using type = plain<T>;
};
template <class T>
struct Holder<c10::ArrayRef<T>> {
  using type = std::vector<T>;
};
template <class... T>
struct Cast<std::tuple<T...>> {
  static std::string name() {
    std::string inner;
    ((inner += (inner.empty() ? "" : ", ") + Cast<plain<T>>::name()), ...);
    return "Tuple[" + inner + "]";
  }
  static bool load(const kw_value& in, std::tuple<T...>& out) {
    if ((in.tag != KW_TUPLE && in.tag != KW_LIST) || in.length != sizeof...(T)) return false;
    const kw_value* item = in.items;
    return std::apply([&](auto&... parts) { return (Cast<plain<decltype(parts)>>::load(*item++, parts) && ...); }, out);
  }
  static kw_value store(const std::tuple<T...>& out, Reply& reply) {
    kw_value* items = reply.block(sizeof...(T));
    size_t i = 0;
    std::apply([&](const auto&... parts) { ((items[i++] = Cast<plain<decltype(parts)>>::store(parts, reply)), ...); }, out);
    kw_value value{};
    value.tag = KW_TUPLE;
    value.items = items;
    value.length = sizeof...(T);
    return value;
  }
};
template <class A, class B>
struct Cast<std::pair<A, B>> {
  static std::string name() { return Cast<std::tuple<A, B>>::name(); }
  static kw_value store(const std::pair<A, B>& out, Reply& reply) {
    return Cast<std::tuple<A, B>>::store(std::tuple<A, B>(out), reply);
  }
};

// Name and default value of a parameter, as in py::arg("eps") = 1e-5.
struct Parameter {
  std::string name;
  std::string shown;
  std::shared_ptr<Reply> owner;
  kw_value fallback{};
  bool has_default = false;
};

struct Function {
  std::string name, doc, result_type;
  std::vector<std::string> types;
  std::vector<Parameter> parameters;
  std::function<kw_status(const kw_value*, Reply&, kw_value&)> call;

  std::string signature() const {
    std::string text = "(";
    for (size_t i = 0; i < types.size(); ++i) {
      text += (i ? ", " : "") + parameters[i].name + ": " + types[i];
      if (parameters[i].has_default) text += " = " + parameters[i].shown;
    }
    return text + ") -> " + result_type;
  }
};

inline std::vector<Function>& functions() {
  static std::vector<Function> all;
  return all;
}

template <class R, class... P, size_t... I>
kw_status apply(const std::function<R(P...)>& f, const kw_value* in, Reply& reply, kw_value& out,
                std::index_sequence<I...>) {
  std::tuple<typename Holder<plain<P>>::type...> held;
  const bool fits = (Cast<typename Holder<plain<P>>::type>::load(in[I], std::get<I>(held)) && ...);
  if (!fits) return KW_MISMATCH;
  if constexpr (std::is_void_v<R>) {
    f(static_cast<P>(std::get<I>(held))...);
    out.tag = KW_NONE;
  } else {
    out = Cast<plain<R>>::store(f(static_cast<P>(std::get<I>(held))...), reply);
  }
  return KW_OK;
}

template <class R, class... P>
Function describe(const char* name, std::function<R(P...)> f) {
  Function made;
  made.name = name;
  (made.types.push_back(Cast<typename Holder<plain<P>>::type>::name()), ...);
  if constexpr (std::is_void_v<R>)
    made.result_type = "None";
  else
    made.result_type = Cast<plain<R>>::name();
  made.call = [f = std::move(f)](const kw_value* in, Reply& reply, kw_value& out) {
    return apply<R, P...>(f, in, reply, out, std::index_sequence_for<P...>());
  };
  return made;
}

}  // namespace kw

namespace pybind11 {

struct none {};
struct arg {
  kw::Parameter parameter;
  explicit arg(const char* name) { parameter.name = name; }
  arg operator=(const char* words) const { return *this = std::string(words); }
  template <class T>
  arg operator=(const T& value) const {
    arg made = *this;
    made.parameter.owner = std::make_shared<kw::Reply>();
    if constexpr (std::is_same_v<T, std::nullopt_t> || std::is_same_v<T, none>)
      made.parameter.fallback.tag = KW_NONE;
    else
      made.parameter.fallback = kw::Cast<std::decay_t<T>>::store(value, *made.parameter.owner);
    made.parameter.has_default = true;
    made.parameter.shown = "...";
    return made;
  }
  arg& noconvert(bool = true) { return *this; }
};
inline namespace literals {
inline arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals
struct gil_scoped_release {};
struct gil_scoped_acquire {};
template <class... T>
struct call_guard {};
enum class return_value_policy { automatic, copy, move, reference };

class module_ {
  std::string doc_;

  static void apply(kw::Function& f, size_t&, const char* doc) { f.doc = doc; }
  static void apply(kw::Function& f, size_t&, const std::string& doc) { f.doc = doc; }
  static void apply(kw::Function& f, size_t& next, const arg& given) {
    if (next < f.parameters.size()) f.parameters[next] = given.parameter;
    ++next;
  }
  template <class T>
  static void apply(kw::Function&, size_t&, const call_guard<T>&) {}
  static void apply(kw::Function&, size_t&, return_value_policy) {}

 public:
  template <class F, class... Extra>
  module_& def(const char* name, F&& f, const Extra&... extra) {
    kw::Function made = kw::describe(name, std::function(std::forward<F>(f)));
    for (size_t i = 0; i < made.types.size(); ++i) {
      made.parameters.emplace_back();
      made.parameters.back().name = "arg" + std::to_string(i);
    }
    size_t next = 0;
    (apply(made, next, extra), ...);
    kw::functions().push_back(std::move(made));
    return *this;
  }
  std::string& doc() { return doc_; }
};
using module = module_;

}  // namespace pybind11
namespace py = pybind11;

namespace torch {
namespace py = pybind11;
template <class F>
F wrap_pybind_function(F&& f) {
  return std::forward<F>(f);
}
}  // namespace torch

#define TORCH_EXTENSION_NAME kw_extension
#define KW_MODULE_(variable) extern "C" KW_EXPORT void kw_module_init(::pybind11::module_& variable)
#define PYBIND11_MODULE(name, variable, ...) KW_MODULE_(variable)

extern "C" KW_EXPORT void kw_module_init(pybind11::module_& m);

#pragma GCC visibility pop
