"""Linear, GroupNorm, minimum over the features and a broadcast bias.

The file for sm_90 runs on the tensor cores, splits both operands in every call, and computes norm and minimum
in the epilogue of the product. Every other GPU uses float32 arithmetic and a second pass for them.

Inference only: this file has no backward. `agent.kernels` wraps the same device code with a gradient.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
torch::Tensor linear_group_norm_min_bias(
    torch::Tensor x, torch::Tensor weight, torch::Tensor linear_bias, torch::Tensor gamma,
    torch::Tensor beta, torch::Tensor bias, int64_t groups, double eps);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../csrc/candidate.cuh"

torch::Tensor linear_group_norm_min_bias(
    torch::Tensor x, torch::Tensor weight, torch::Tensor linear_bias, torch::Tensor gamma,
    torch::Tensor beta, torch::Tensor bias, int64_t groups, double eps) {
    for (const torch::Tensor& given : {x, weight, linear_bias, gamma, beta, bias}) {
        TORCH_CHECK(
            kernelwright::dtype_of(given) == kernelwright::kFloat32 && given.numel() > 0,
            "linear_group_norm_min_bias: the operands are float32, and none is empty");
    }
    TORCH_CHECK(
        x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1) && groups > 0 &&
            weight.size(0) % groups == 0,
        "linear_group_norm_min_bias: the operands do not fit");
    const c10::cuda::CUDAGuard guard(x.device());
    x = x.contiguous();
    weight = weight.contiguous();
    const int64_t n = weight.size(0);
    const torch::Tensor shift = kernelwright::parameter(linear_bias, n);
    const torch::Tensor scale = kernelwright::parameter(gamma, n);
    const torch::Tensor level = kernelwright::parameter(beta, n);
    bias = bias.contiguous();
    torch::Tensor out = torch::empty({1, bias.numel(), x.size(0), 1}, x.options());
    kernelwright::linear_group_norm_min_bias::Forward args = {};
    args.x = x.data_ptr<float>();
    args.weight = weight.data_ptr<float>();
    args.linear_bias = shift.data_ptr<float>();
    args.gamma = scale.data_ptr<float>();
    args.beta = level.data_ptr<float>();
    args.bias = bias.data_ptr<float>();
    args.out = out.data_ptr<float>();
    args.m = x.size(0);
    args.n = n;
    args.k = x.size(1);
    args.groups = groups;
    args.count = bias.numel();
    args.eps = eps;
    args.stream = at::cuda::getCurrentCUDAStream();
    args.device = x.get_device();
    const int64_t needed = kernelwright::linear_group_norm_min_bias::forward_workspace(args);
    torch::Tensor workspace = torch::empty({needed}, x.options().dtype(torch::kUInt8));
    args.workspace = workspace.data_ptr();
    C10_CUDA_CHECK(kernelwright::linear_group_norm_min_bias::forward(args));
    return out;
}
"""

extension = load_inline(
    name="kernelwright_linear_group_norm_min_bias",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["linear_group_norm_min_bias"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Module with the constructor arguments and the state_dict keys of the reference's `Model`."""

    def __init__(
        self, in_features: int, out_features: int, num_groups: int, bias_shape: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.group_norm = nn.GroupNorm(num_groups, out_features)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = extension.linear_group_norm_min_bias(
            x, self.linear.weight, self.linear.bias, self.group_norm.weight, self.group_norm.bias, self.bias,
            self.group_norm.num_groups, self.group_norm.eps,
        )  # fmt: skip
        return out
