// Conversion of torch tensors to launcher arguments, for the ModelNew variant of a kernel.
#pragma once

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "element.cuh"

namespace kernelwright {

// Returns the Dtype of x. Raises for a tensor on the CPU or of an unsupported dtype.
inline int64_t dtype_of(const torch::Tensor& x) {
    TORCH_CHECK(x.is_cuda(), "the tensor is not on the GPU");
    if (x.scalar_type() == torch::kFloat32) return kFloat32;
    if (x.scalar_type() == torch::kFloat16) return kFloat16;
    TORCH_CHECK(x.scalar_type() == torch::kBFloat16, "the tensor is not float32, float16 or bfloat16");
    return kBFloat16;
}

// Returns a contiguous parameter of `count` values, or an undefined tensor if there is none.
inline torch::Tensor parameter(const std::optional<torch::Tensor>& values, int64_t count) {
    if (!values.has_value()) return torch::Tensor();
    TORCH_CHECK(values->is_cuda() && values->numel() == count, "a parameter has another size or device");
    return values->contiguous();
}

inline const void* address(const torch::Tensor& values) {
    return values.defined() ? values.data_ptr() : nullptr;
}

// Returns the common Dtype of weight and bias, or that of x if both are undefined.
inline int64_t dtype_of(const torch::Tensor& weight, const torch::Tensor& bias, const torch::Tensor& x) {
    TORCH_CHECK(
        !weight.defined() || !bias.defined() || weight.scalar_type() == bias.scalar_type(),
        "weight and bias are of two dtypes");
    return dtype_of(weight.defined() ? weight : bias.defined() ? bias : x);
}

}  // namespace kernelwright
