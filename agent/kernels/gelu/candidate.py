"""GELU of a tensor of any shape, exact (erf) or with the tanh approximation.

Inference only: this file has no backward. `agent.kernels` wraps the same device code with a gradient.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
torch::Tensor gelu(torch::Tensor x, bool approximate_tanh);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../csrc/candidate.cuh"

torch::Tensor gelu(torch::Tensor x, bool approximate_tanh) {
    const int64_t dtype = kernelwright::dtype_of(x);
    const c10::cuda::CUDAGuard guard(x.device());
    x = x.contiguous();
    torch::Tensor y = torch::empty(x.sizes(), x.options());
    if (x.numel() == 0) return y;
    C10_CUDA_CHECK(kernelwright::gelu::forward(
        {x.data_ptr(), y.data_ptr(), x.numel(), approximate_tanh, dtype, at::cuda::getCurrentCUDAStream(),
         x.get_device()}));
    return y;
}
"""

extension = load_inline(
    name="kernelwright_gelu",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["gelu"],
    extra_cuda_cflags=["-O3"],
)


def gelu(x: torch.Tensor, approximate: str) -> torch.Tensor:
    """Compute `torch.nn.functional.gelu`; approximate is `none` or `tanh`."""
    y: torch.Tensor = extension.gelu(x, approximate == "tanh")
    return y


class ModelNew(nn.Module):
    """Module with the constructor arguments and the state_dict keys of the reference's `Model`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return gelu(x, "none")
