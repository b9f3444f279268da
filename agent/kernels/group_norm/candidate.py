"""GroupNorm with any group count, any eps and any rank from 2, with or without affine parameters.

The variant for sm_90 streams large groups. Every other GPU runs the portable path.

Inference only: this file has no backward. `agent.kernels` wraps the same device code with a gradient.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
#include <optional>

torch::Tensor group_norm(
    torch::Tensor x, std::optional<torch::Tensor> weight, std::optional<torch::Tensor> bias, int64_t groups,
    double eps);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../csrc/candidate.cuh"

torch::Tensor group_norm(
    torch::Tensor x, std::optional<torch::Tensor> weight, std::optional<torch::Tensor> bias, int64_t groups,
    double eps) {
    const int64_t dtype = kernelwright::dtype_of(x);
    TORCH_CHECK(x.dim() >= 2, "group_norm: x has no channel dimension");
    TORCH_CHECK(groups > 0 && x.size(1) % groups == 0, "group_norm: the groups do not divide the channels");
    const c10::cuda::CUDAGuard guard(x.device());
    x = x.contiguous();
    const torch::Tensor gamma = kernelwright::parameter(weight, x.size(1));
    const torch::Tensor beta = kernelwright::parameter(bias, x.size(1));
    torch::Tensor y = torch::empty(x.sizes(), x.options());
    if (x.numel() == 0) return y;
    kernelwright::group_norm::Forward args = {};
    args.x = x.data_ptr();
    args.weight = kernelwright::address(gamma);
    args.bias = kernelwright::address(beta);
    args.y = y.data_ptr();
    args.n = x.size(0);
    args.channels = x.size(1);
    args.spatial = x.numel() / (x.size(0) * x.size(1));
    args.groups = groups;
    args.dtype = dtype;
    args.param_dtype = kernelwright::dtype_of(gamma, beta, x);
    args.eps = eps;
    args.stream = at::cuda::getCurrentCUDAStream();
    args.device = x.get_device();
    const int64_t needed = kernelwright::group_norm::forward_workspace(args);
    torch::Tensor workspace = torch::empty({needed}, x.options().dtype(torch::kUInt8));
    args.workspace = needed == 0 ? nullptr : workspace.data_ptr();
    C10_CUDA_CHECK(kernelwright::group_norm::forward(args));
    return y;
}
"""

extension = load_inline(
    name="kernelwright_group_norm",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["group_norm"],
    extra_cuda_cflags=["-O3"],
)


def group_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, groups: int, eps: float
) -> torch.Tensor:
    """Compute `torch.nn.functional.group_norm` of x [N, C, *]; weight and bias are [C] or None."""
    y: torch.Tensor = extension.group_norm(x, weight, bias, groups, eps)
    return y


class ModelNew(nn.Module):
    """Module with the constructor arguments and the state_dict keys of the reference's `Model`."""

    def __init__(self, num_features: int, num_groups: int) -> None:
        super().__init__()
        self.gn = nn.Module()
        self.gn.weight = nn.Parameter(torch.ones(num_features))
        self.gn.bias = nn.Parameter(torch.zeros(num_features))
        self.groups = num_groups

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return group_norm(
            x, self.get_parameter("gn.weight"), self.get_parameter("gn.bias"), self.groups, 1e-05
        )
