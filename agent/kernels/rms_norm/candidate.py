"""RMSNorm over any trailing dimensions, with or without weight.

Inference only: this file has no backward. `agent.kernels` wraps the same device code with a gradient.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
#include <optional>

torch::Tensor rms_norm(torch::Tensor x, std::optional<torch::Tensor> weight, int64_t dims, double eps);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../csrc/candidate.cuh"

torch::Tensor rms_norm(torch::Tensor x, std::optional<torch::Tensor> weight, int64_t dims, double eps) {
    const int64_t dtype = kernelwright::dtype_of(x);
    TORCH_CHECK(dims > 0 && dims <= x.dim(), "rms_norm: x has fewer dimensions than are normalised");
    const c10::cuda::CUDAGuard guard(x.device());
    x = x.contiguous();
    int64_t length = 1;
    for (int64_t d = x.dim() - dims; d < x.dim(); ++d) length *= x.size(d);
    const torch::Tensor gamma = kernelwright::parameter(weight, length);
    const torch::Tensor beta = torch::Tensor();
    torch::Tensor y = torch::empty(x.sizes(), x.options());
    if (x.numel() == 0) return y;
    C10_CUDA_CHECK(kernelwright::rms_norm::forward(
        {x.data_ptr(), kernelwright::address(gamma), kernelwright::address(beta), y.data_ptr(), nullptr,
         nullptr, x.numel() / length, length, dtype, kernelwright::dtype_of(gamma, beta, x), eps,
         at::cuda::getCurrentCUDAStream(), x.get_device()}));
    return y;
}
"""

extension = load_inline(
    name="kernelwright_rms_norm",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["rms_norm"],
    extra_cuda_cflags=["-O3"],
)


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, dims: int, eps: float) -> torch.Tensor:
    """Compute `F.rms_norm` over the last `dims` dimensions of x; weight has the shape of these or is None."""
    y: torch.Tensor = extension.rms_norm(x, weight, dims, eps)
    return y


class ModelNew(nn.Module):
    """Module with the constructor arguments and the state_dict keys of the reference's `Model`."""

    def __init__(self, hidden_size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, self.get_parameter("weight"), 1, self.eps)
