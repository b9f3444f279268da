// Maps from C++ types to scalar types and back, shared by g++ and nvcc (nvcc/include).
#pragma once
#include <type_traits>

#include "kw/host_half.h"
#include "kw/host_scalars.h"

namespace c10 {

template <class T>
struct CppTypeToScalarType;
template <ScalarType>
struct ScalarTypeToCPPType;
#define KW_MAP(cpp_type, name, code)                                                             \
  template <>                                                                                    \
  struct CppTypeToScalarType<cpp_type> : std::integral_constant<ScalarType, ScalarType::name> {}; \
  template <>                                                                                    \
  struct ScalarTypeToCPPType<ScalarType::name> {                                                 \
    using type = cpp_type;                                                                       \
  };
KW_FOR_EACH_SCALAR_TYPE(KW_MAP)
#undef KW_MAP

}  // namespace c10
