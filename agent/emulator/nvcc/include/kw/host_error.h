// c10::Error and the TORCH_CHECK family: conditions and parts of messages are used and go nowhere.
#pragma once
#include <cstdint>
#include <exception>

namespace kw {
#ifdef _GLIBCXX_STRING
using Words = std::string;
#else
struct Words {
  Words(const char*);
  const char* c_str() const;
  operator const char*() const;
};
#endif
template <class... A>
void said(const A&...);
}  // namespace kw

namespace c10 {

template <class... A>
kw::Words str(const A&...);

struct Error : std::exception {
  explicit Error(const kw::Words&);
  const char* what() const noexcept override;
  const char* what_without_backtrace() const noexcept;
  const kw::Words& msg() const;
};
struct ValueError : Error {
  using Error::Error;
};
struct TypeError : Error {
  using Error::Error;
};
struct IndexError : Error {
  using Error::Error;
};
struct NotImplementedError : Error {
  using Error::Error;
};

}  // namespace c10

#define C10_LIKELY(expr) (__builtin_expect(static_cast<bool>(expr), 1))
#define C10_UNLIKELY(expr) (__builtin_expect(static_cast<bool>(expr), 0))
#define C10_UNLIKELY_OR_CONST(expr) C10_UNLIKELY(expr)

#define TORCH_CHECK(cond, ...)              \
  do {                                      \
    if (!(cond)) ::kw::said(__VA_ARGS__);   \
  } while (false)
#define TORCH_CHECK_VALUE(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(cond, ...) ((void)0)
#define AT_ASSERT(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define AT_ASSERTM(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define AT_CHECK(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define AT_ERROR(...) throw ::c10::Error(::c10::str(__VA_ARGS__))
#define C10_THROW_ERROR(type, message) throw ::c10::type(message)
#define TORCH_WARN(...) ::kw::said(__VA_ARGS__)
#define TORCH_WARN_ONCE(...) ::kw::said(__VA_ARGS__)

#define TORCH_API
#define C10_API
#define C10_EXPORT
#define TORCH_CUDA_CPP_API
#define TORCH_CUDA_CU_API
#define C10_RESTRICT __restrict__
#define C10_NOINLINE __attribute__((noinline))
#define C10_ALWAYS_INLINE inline __attribute__((always_inline))
#define C10_UNUSED [[maybe_unused]]
#define C10_NODISCARD [[nodiscard]]
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_HOST_DEVICE __host__ __device__
#define AT_HOST_DEVICE __host__ __device__
#define AT_DEVICE __device__
