// PYBIND11_MODULE and m.def, only declared: nvcc binds nothing.
#pragma once
#include "kw/host_operators.h"

namespace pybind11 {
struct none {};
struct arg {
  explicit arg(const char*);
  template <class T>
  arg operator=(const T&) const;
  arg& noconvert(bool = true);
};
inline namespace literals {
arg operator""_a(const char*, size_t);
}
struct gil_scoped_release {
  gil_scoped_release();
  ~gil_scoped_release();
};
struct gil_scoped_acquire : gil_scoped_release {};
template <class... T>
struct call_guard {};
enum class return_value_policy { automatic, copy, move, reference };

struct module_ {
  template <class F, class... Extra>
  module_& def(const char*, F&&, const Extra&...);
  kw::Words& doc();
};
using module = module_;
}  // namespace pybind11
namespace py = pybind11;

namespace torch {
namespace py = pybind11;
}

#define TORCH_EXTENSION_NAME kw_extension
#define PYBIND11_MODULE(name, variable, ...) void kw_module_init(::pybind11::module_& variable)
