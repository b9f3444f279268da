// c10::Error and the TORCH_CHECK family. Python shows the message unchanged.
#pragma once
#include <cstdint>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace c10 {

class Error : public std::exception {
  std::string message_;

 public:
  explicit Error(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  const char* what_without_backtrace() const noexcept { return message_.c_str(); }
  const std::string& msg() const { return message_; }
};
class ValueError : public Error {
  using Error::Error;
};
class TypeError : public Error {
  using Error::Error;
};
class IndexError : public Error {
  using Error::Error;
};
class NotImplementedError : public Error {
  using Error::Error;
};

template <class... A>
std::string str(const A&... parts) {
  std::ostringstream out;
  out << std::boolalpha;
  ((out << parts), ...);
  return out.str();
}

}  // namespace c10

namespace kw {
template <class... A>
std::string check_message(const char* condition, const A&... parts) {
  if constexpr (sizeof...(parts) == 0)
    return std::string("Expected ") + condition + " to be true, but got false.";
  else
    return c10::str(parts...);
}
}  // namespace kw

#include "kw/host_macros.h"

#define TORCH_CHECK_WITH(type, cond, ...)                                            \
  do {                                                                               \
    if (C10_UNLIKELY(!(cond))) throw ::c10::type(::kw::check_message(#cond, ##__VA_ARGS__)); \
  } while (false)
#define TORCH_CHECK_VALUE(cond, ...) TORCH_CHECK_WITH(ValueError, cond, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(cond, ...) TORCH_CHECK_WITH(TypeError, cond, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(cond, ...) TORCH_CHECK_WITH(IndexError, cond, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(cond, ...) TORCH_CHECK_WITH(NotImplementedError, cond, ##__VA_ARGS__)
#define AT_ERROR(...) throw ::c10::Error(::c10::str(__VA_ARGS__))
#define C10_THROW_ERROR(type, message) throw ::c10::type(message)

#define KW_WARN(...) (std::cerr << "Warning: " << ::c10::str(__VA_ARGS__) << std::endl)
#define TORCH_WARN(...) KW_WARN(__VA_ARGS__)
#define TORCH_WARN_ONCE(...)                                  \
  do {                                                        \
    static const bool kw_said = (KW_WARN(__VA_ARGS__), true); \
    (void)kw_said;                                            \
  } while (false)
