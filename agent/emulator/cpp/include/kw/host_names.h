// Accumulator types and the names of namespace torch, shared by g++ and nvcc (nvcc/include).
#pragma once

namespace at {

// Type in which sums of values of type T are accumulated.
template <class T, bool on_gpu>
struct AccumulateType {
  using type = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float,
                                  std::conditional_t<std::is_integral_v<T>, int64_t, T>>;
};
template <class T, bool on_gpu>
using acc_type = typename AccumulateType<T, on_gpu>::type;
template <class T>
struct OpMathType {
  using type = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
};
template <class T>
using opmath_type = typename OpMathType<T>::type;

}  // namespace at

namespace torch {
using namespace at;
using namespace c10;
using at::Tensor;
namespace indexing = at::indexing;
using Dtype = c10::ScalarType;
using c10::dtype;

constexpr auto kUInt8 = c10::kByte;
constexpr auto kInt8 = c10::kChar;
constexpr auto kInt16 = c10::kShort;
constexpr auto kInt32 = c10::kInt;
constexpr auto kInt64 = c10::kLong;
constexpr auto kFloat16 = c10::kHalf;
constexpr auto kFloat32 = c10::kFloat;
constexpr auto kFloat64 = c10::kDouble;
constexpr auto kU8 = c10::kByte;
constexpr auto kI32 = c10::kInt;
constexpr auto kI64 = c10::kLong;
constexpr auto kF16 = c10::kHalf;
constexpr auto kF32 = c10::kFloat;
constexpr auto kF64 = c10::kDouble;
}  // namespace torch
