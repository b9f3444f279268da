// from_blob for memory of the emulated device. torch's own from_blob would ask a driver for the device of a pointer.
#pragma once
#include <ATen/ops/from_blob.h>

#include <functional>
#include <optional>

namespace at {

inline std::optional<Device> kw_device(const TensorOptions& options, std::optional<Device> asked) {
  return !asked && options.device().is_cuda() ? Device(kCUDA, 0) : asked;
}

inline Tensor kw_from_blob(void* data, IntArrayRef sizes, IntArrayRef strides,
                           const std::function<void(void*)>& deleter, const TensorOptions& options = {},
                           std::optional<Device> device = std::nullopt) {
  return from_blob(data, sizes, strides, deleter, options, kw_device(options, device));
}

inline Tensor kw_from_blob(void* data, IntArrayRef sizes, std::function<void(void*)> deleter,
                           const TensorOptions& options = {}, std::optional<Device> device = std::nullopt) {
  return from_blob(data, sizes, std::move(deleter), options, kw_device(options, device));
}

inline Tensor kw_from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {}) {
  return kw_from_blob(data, sizes, strides, [](void*) {}, options);
}

inline Tensor kw_from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {}) {
  return kw_from_blob(data, sizes, [](void*) {}, options);
}

}  // namespace at

#define from_blob kw_from_blob
