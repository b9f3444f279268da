"""SwiGLU and GeGLU of the halves of the last dimension, for any shape.

Inference only: this file has no backward. `agent.kernels` wraps the same device code with a gradient.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
torch::Tensor gate_product_halves(torch::Tensor x, int64_t act, bool gate_first);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../csrc/candidate.cuh"

torch::Tensor gate_product_halves(torch::Tensor x, int64_t act, bool gate_first) {
    const int64_t dtype = kernelwright::dtype_of(x);
    TORCH_CHECK(x.dim() > 0 && x.size(-1) % 2 == 0, "gate_product_halves: the last dimension has no halves");
    const c10::cuda::CUDAGuard guard(x.device());
    x = x.contiguous();
    const int64_t length = x.size(-1) / 2;
    std::vector<int64_t> shape(x.sizes().begin(), x.sizes().end());
    shape.back() = length;
    torch::Tensor y = torch::empty(shape, x.options());
    if (y.numel() == 0) return y;
    const void* first = x.data_ptr();
    const void* second = static_cast<const char*>(first) + length * x.element_size();
    C10_CUDA_CHECK(kernelwright::gate_product::forward(
        {gate_first ? first : second, gate_first ? second : first, y.data_ptr(), y.numel() / length, length,
         2 * length, 2 * length, act, dtype, at::cuda::getCurrentCUDAStream(), x.get_device()}));
    return y;
}
"""

extension = load_inline(
    name="kernelwright_gate_product",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["gate_product_halves"],
    extra_cuda_cflags=["-O3"],
)

ACTS = {"silu": 0, "gelu": 1, "gelu_tanh": 2}


def gate_product_halves(x: torch.Tensor, act: str, gate_first: bool) -> torch.Tensor:
    """Return act(gate) * value for the halves of the last dimension; act is silu, gelu or gelu_tanh."""
    y: torch.Tensor = extension.gate_product_halves(x, ACTS[act], gate_first)
    return y


class ModelNew(nn.Module):
    """Module with the constructor arguments and the state_dict keys of the reference's `Model`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return gate_product_halves(x, "silu", True)
