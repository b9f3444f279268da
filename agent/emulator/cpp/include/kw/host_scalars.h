// The enumerators of c10 with torch's own numbers: for g++, for nvcc (nvcc/include) and, generated, for Python
// (agent/emulator/contracts).
#pragma once
#include <cstdint>

#include "kw/host_half.h"

#define KW_FOR_EACH_SCALAR_TYPE(X) \
  X(uint8_t, Byte, 0)              \
  X(int8_t, Char, 1)               \
  X(int16_t, Short, 2)             \
  X(int, Int, 3)                   \
  X(int64_t, Long, 4)              \
  X(::c10::Half, Half, 5)          \
  X(float, Float, 6)               \
  X(double, Double, 7)             \
  X(bool, Bool, 11)                \
  X(::c10::BFloat16, BFloat16, 15)

namespace c10 {

enum class ScalarType : int8_t {
#define KW_ENUMERATOR(type, name, code) name = code,
  KW_FOR_EACH_SCALAR_TYPE(KW_ENUMERATOR)
#undef KW_ENUMERATOR
  ComplexHalf = 8,
  ComplexFloat = 9,
  ComplexDouble = 10,
  Undefined = 127,
};

#define KW_CONSTANT(type, name, code) constexpr ScalarType k##name = ScalarType::name;
KW_FOR_EACH_SCALAR_TYPE(KW_CONSTANT)
#undef KW_CONSTANT
constexpr ScalarType kComplexFloat = ScalarType::ComplexFloat;
constexpr ScalarType kComplexDouble = ScalarType::ComplexDouble;

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, Meta = 9 };
constexpr DeviceType kCPU = DeviceType::CPU;
constexpr DeviceType kCUDA = DeviceType::CUDA;
constexpr DeviceType kMeta = DeviceType::Meta;
using DeviceIndex = int8_t;

enum class Layout : int8_t { Strided, Sparse };
constexpr Layout kStrided = Layout::Strided;
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
}
