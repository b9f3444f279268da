// AT_DISPATCH_*: calls a generic lambda with scalar_t bound to the tensor's type.
#pragma once
#include "kw/host_types.h"

namespace kw {
inline c10::ScalarType scalar_type(c10::ScalarType type) { return type; }
inline c10::ScalarType scalar_type(c10::TypeMeta type) { return type.type; }
// Deleted, because torch has removed this overload: AT_DISPATCH_* with x.type() does not compile.
c10::ScalarType scalar_type(const at::DeprecatedTypeProperties& type) = delete;
// Throws c10::NotImplementedError for a scalar type that the dispatch of `name` lacks.
[[noreturn]] void unimplemented(const char* name, c10::ScalarType type);
template <c10::ScalarType type>
using cpp_type = typename c10::ScalarTypeToCPPType<type>::type;
}  // namespace kw

#define AT_PRIVATE_CASE_TYPE_USING_HINT(enum_type, hint, ...)            \
  case enum_type: {                                                      \
    using hint [[maybe_unused]] = ::kw::cpp_type<enum_type>;             \
    return __VA_ARGS__();                                                \
  }
#define AT_DISPATCH_CASE(enum_type, ...) AT_PRIVATE_CASE_TYPE_USING_HINT(enum_type, scalar_t, __VA_ARGS__)
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                                  \
  [&] {                                                                                      \
    constexpr const char* at_dispatch_name = NAME;                                           \
    const ::c10::ScalarType kw_type = ::kw::scalar_type(TYPE);                               \
    switch (kw_type) {                                                                       \
      __VA_ARGS__                                                                            \
      default:                                                                               \
        ::kw::unimplemented(at_dispatch_name, kw_type);                                      \
    }                                                                                        \
  }()

#define KW_FLOATING(...)                                        \
  AT_DISPATCH_CASE(::c10::ScalarType::Double, __VA_ARGS__)      \
  AT_DISPATCH_CASE(::c10::ScalarType::Float, __VA_ARGS__)
#define KW_INTEGRAL(...)                                        \
  AT_DISPATCH_CASE(::c10::ScalarType::Byte, __VA_ARGS__)        \
  AT_DISPATCH_CASE(::c10::ScalarType::Char, __VA_ARGS__)        \
  AT_DISPATCH_CASE(::c10::ScalarType::Int, __VA_ARGS__)         \
  AT_DISPATCH_CASE(::c10::ScalarType::Long, __VA_ARGS__)        \
  AT_DISPATCH_CASE(::c10::ScalarType::Short, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES(...) KW_FLOATING(__VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...) KW_INTEGRAL(__VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...) KW_INTEGRAL(__VA_ARGS__) KW_FLOATING(__VA_ARGS__)

#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, KW_FLOATING(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, KW_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(::c10::ScalarType::Half, __VA_ARGS__))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(TYPE, NAME, ...)                                    \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE(::c10::ScalarType::Half, __VA_ARGS__)        \
                                     AT_DISPATCH_CASE(::c10::ScalarType::BFloat16, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, KW_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(T1, T2, TYPE, NAME, ...)                                     \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                     \
                     KW_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__) AT_DISPATCH_CASE(T2, __VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, KW_INTEGRAL(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND2(T1, T2, TYPE, NAME, ...)                                          \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                     \
                     AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__)       \
                         AT_DISPATCH_CASE(T2, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND3(T1, T2, T3, TYPE, NAME, ...)                                      \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                     \
                     AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__)       \
                         AT_DISPATCH_CASE(T2, __VA_ARGS__) AT_DISPATCH_CASE(T3, __VA_ARGS__))
#define AT_DISPATCH_INDEX_TYPES(TYPE, NAME, ...)                                                       \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                       \
                     AT_PRIVATE_CASE_TYPE_USING_HINT(::c10::ScalarType::Int, index_t, __VA_ARGS__)     \
                         AT_PRIVATE_CASE_TYPE_USING_HINT(::c10::ScalarType::Long, index_t, __VA_ARGS__))
