"""LayerNorm over any trailing dimensions, with or without weight and bias.

Inference only: this file has no backward. `agent.kernels` wraps the same device code with a gradient.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
#include <optional>

torch::Tensor layer_norm(
    torch::Tensor x, std::optional<torch::Tensor> weight, std::optional<torch::Tensor> bias, int64_t dims,
    double eps);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../csrc/candidate.cuh"

torch::Tensor layer_norm(
    torch::Tensor x, std::optional<torch::Tensor> weight, std::optional<torch::Tensor> bias, int64_t dims,
    double eps) {
    const int64_t dtype = kernelwright::dtype_of(x);
    TORCH_CHECK(dims > 0 && dims <= x.dim(), "layer_norm: x has fewer dimensions than that");
    const c10::cuda::CUDAGuard guard(x.device());
    x = x.contiguous();
    int64_t length = 1;
    for (int64_t d = x.dim() - dims; d < x.dim(); ++d) length *= x.size(d);
    const torch::Tensor gamma = kernelwright::parameter(weight, length);
    const torch::Tensor beta = kernelwright::parameter(bias, length);
    torch::Tensor y = torch::empty(x.sizes(), x.options());
    if (x.numel() == 0) return y;
    C10_CUDA_CHECK(kernelwright::layer_norm::forward(
        {x.data_ptr(), kernelwright::address(gamma), kernelwright::address(beta), y.data_ptr(), nullptr,
         nullptr, x.numel() / length, length, dtype, kernelwright::dtype_of(gamma, beta, x), eps,
         at::cuda::getCurrentCUDAStream(), x.get_device()}));
    return y;
}
"""

extension = load_inline(
    name="kernelwright_layer_norm",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["layer_norm"],
    extra_cuda_cflags=["-O3"],
)


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, dims: int, eps: float
) -> torch.Tensor:
    """Compute `F.layer_norm` over the last `dims` dimensions of x, which are the shape of the parameters."""
    y: torch.Tensor = extension.layer_norm(x, weight, bias, dims, eps)
    return y


class ModelNew(nn.Module):
    """Module with the constructor arguments and the state_dict keys of the reference's `Model`."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.ln = nn.Module()
        self.ln.weight = nn.Parameter(torch.ones(hidden_size))
        self.ln.bias = nn.Parameter(torch.zeros(hidden_size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return layer_norm(x, self.get_parameter("ln.weight"), self.get_parameter("ln.bias"), 1, 1e-05)
