"""logsumexp over the channels of c + hardswish(tanh(GroupNorm(c))), c a 3x3 convolution of the input.

The file for sm_90a computes the convolution on the tensor cores, every other GPU runs the portable path.

Inference only: this file has no backward. `agent.kernels` wraps the same device code with a gradient.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
#include <optional>

torch::Tensor conv_logsumexp(
    torch::Tensor x, torch::Tensor weight, std::optional<torch::Tensor> bias,
    std::optional<torch::Tensor> gamma, std::optional<torch::Tensor> beta, int64_t groups, double eps);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../csrc/candidate.cuh"

static const float* values_of(const torch::Tensor& values) {
    return static_cast<const float*>(kernelwright::address(values));
}

torch::Tensor conv_logsumexp(
    torch::Tensor x, torch::Tensor weight, std::optional<torch::Tensor> bias,
    std::optional<torch::Tensor> gamma, std::optional<torch::Tensor> beta, int64_t groups, double eps) {
    TORCH_CHECK(x.dim() == 4 && x.size(2) > 2 && x.size(3) > 2, "conv_logsumexp: x is smaller than 3 x 3");
    TORCH_CHECK(
        weight.dim() == 4 && weight.size(1) == x.size(1) && weight.size(2) == 3 && weight.size(3) == 3,
        "conv_logsumexp: the weight is not [channels, channels of x, 3, 3]");
    const int64_t channels = weight.size(0);
    TORCH_CHECK(
        groups > 0 && channels % groups == 0, "conv_logsumexp: the groups do not divide the channels");
    const c10::cuda::CUDAGuard guard(x.device());
    x = x.contiguous();
    weight = weight.contiguous();
    const torch::Tensor added = kernelwright::parameter(bias, channels);
    const torch::Tensor scale = kernelwright::parameter(gamma, channels);
    const torch::Tensor shift = kernelwright::parameter(beta, channels);
    for (const torch::Tensor& values : {x, weight, added, scale, shift}) {
        TORCH_CHECK(
            !values.defined() || kernelwright::dtype_of(values) == kernelwright::kFloat32,
            "conv_logsumexp: a tensor is not float32");
    }
    torch::Tensor y = torch::empty({x.size(0), 1, x.size(2) - 2, x.size(3) - 2}, x.options());
    if (x.numel() == 0) return y;
    kernelwright::conv_logsumexp::Forward args = {};
    args.x = values_of(x);
    args.weight = values_of(weight);
    args.bias = values_of(added);
    args.gamma = values_of(scale);
    args.beta = values_of(shift);
    args.y = y.data_ptr<float>();
    args.n = x.size(0);
    args.in_channels = x.size(1);
    args.channels = channels;
    args.height = x.size(2);
    args.width = x.size(3);
    args.groups = groups;
    args.eps = eps;
    args.stream = at::cuda::getCurrentCUDAStream();
    args.device = x.get_device();
    args.path = kernelwright::conv_logsumexp::path_when_large(args);
    const int64_t needed = kernelwright::conv_logsumexp::forward_workspace(args);
    torch::Tensor workspace = torch::empty({needed}, x.options().dtype(torch::kUInt8));
    args.workspace = workspace.data_ptr();
    C10_CUDA_CHECK(kernelwright::conv_logsumexp::forward(args));
    return y;
}
"""

extension = load_inline(
    name="kernelwright_conv_logsumexp",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["conv_logsumexp"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Module with the constructor arguments and the state_dict keys of the reference's `Model`."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, num_groups: int, eps: float
    ) -> None:
        super().__init__()
        if kernel_size != 3:
            raise ValueError(f"kernel_size={kernel_size}: the kernel is of 3 x 3")
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(num_groups, out_channels, eps=eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [n, 1, height - 2, width - 2] for x [n, in_channels, height, width]."""
        conv, norm = self.conv, self.group_norm
        y: torch.Tensor = extension.conv_logsumexp(
            x, conv.weight, conv.bias, norm.weight, norm.bias, norm.num_groups, norm.eps
        )
        return y
