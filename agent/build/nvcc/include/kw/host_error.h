// c10::Error and the TORCH_CHECK family for nvcc. `refuse`, defined in gpu_build/cpp/library.cpp, throws the errors.
// The classes here do not have their real size, so none can be constructed.
#pragma once
#include <cstdint>
#include <exception>
#include <initializer_list>

namespace kw {
class Arg;
#ifdef _GLIBCXX_STRING
using Words = std::string;
#else
struct Words {
  Words(const char*);
  const char* c_str() const;
  operator const char*() const;
};
#endif
enum class Fault { Error, Value, Type, Index, NotImplemented };
// Throws the c10 error of a kind. The message is the joined parts, or names the condition if there are none.
[[noreturn]] void refuse(Fault kind, const char* condition, std::initializer_list<Arg> parts);
void warn(std::initializer_list<Arg> parts);
Words joined(std::initializer_list<Arg> parts);

// Defined in kw/host_tensor.h, where Arg is complete.
template <class... A>
[[noreturn]] void refuse_with(Fault kind, const char* condition, const A&... parts);
template <class... A>
void warn_with(const A&... parts);
}  // namespace kw

namespace c10 {

template <class... A>
kw::Words str(const A&... parts);

struct Error : std::exception {
  Error() = delete;
  const char* what() const noexcept override;
  const char* what_without_backtrace() const noexcept;
  const kw::Words& msg() const;
};
struct ValueError : Error {};
struct TypeError : Error {};
struct IndexError : Error {};
struct NotImplementedError : Error {};

}  // namespace c10

#include "kw/host_macros.h"

#define TORCH_CHECK_WITH(type, cond, ...)                                                      \
  do {                                                                                         \
    if (C10_UNLIKELY(!(cond))) ::kw::refuse_with(::kw::Fault::type, #cond, ##__VA_ARGS__);     \
  } while (false)
#define TORCH_CHECK_VALUE(cond, ...) TORCH_CHECK_WITH(Value, cond, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(cond, ...) TORCH_CHECK_WITH(Type, cond, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(cond, ...) TORCH_CHECK_WITH(Index, cond, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(cond, ...) TORCH_CHECK_WITH(NotImplemented, cond, ##__VA_ARGS__)
#define AT_ERROR(...) ::kw::refuse_with(::kw::Fault::Error, "", "", ##__VA_ARGS__)
#define TORCH_WARN(...) ::kw::warn_with(__VA_ARGS__)
#define TORCH_WARN_ONCE(...)                                        \
  do {                                                              \
    static const bool kw_said = (::kw::warn_with(__VA_ARGS__), true); \
    (void)kw_said;                                                  \
  } while (false)
