"""A convolution of float32 in float32's accuracy: on the tensor cores, in the file for sm_90.

Every other GPU computes in float32 arithmetic. 1, 2 and 3 dimensions, any stride, padding, dilation and
groups.

Inference only: no gradient flows through this file; `agent.kernels` has the same device code with one.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
#include <optional>
#include <vector>

torch::Tensor conv_fp32x3(
    torch::Tensor x, torch::Tensor weight, std::optional<torch::Tensor> bias, std::vector<int64_t> window,
    int64_t groups);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../csrc/candidate.cuh"

// `window`: stride, padding and dilation, in three dimensions, as x [n, channels, d, h, w] and the weight.
torch::Tensor conv_fp32x3(
    torch::Tensor x, torch::Tensor weight, std::optional<torch::Tensor> bias, std::vector<int64_t> window,
    int64_t groups) {
    TORCH_CHECK(
        kernelwright::dtype_of(x) == kernelwright::kFloat32 &&
            kernelwright::dtype_of(weight) == kernelwright::kFloat32,
        "conv_fp32x3: the operands are float32");
    TORCH_CHECK(
        x.dim() == 5 && weight.dim() == 5 && window.size() == 9 && groups > 0 &&
            weight.size(0) % groups == 0 && x.size(1) == groups * weight.size(1) && x.numel() > 0 &&
            weight.numel() > 0,
        "conv_fp32x3: the operands do not fit");
    const c10::cuda::CUDAGuard guard(x.device());
    x = x.contiguous();
    weight = weight.contiguous();
    int64_t out[3];
    for (int i = 0; i < 3; ++i) {
        const int64_t reach = window[6 + i] * (weight.size(2 + i) - 1) + 1;
        out[i] = (x.size(2 + i) + 2 * window[3 + i] - reach) / window[i] + 1;
        TORCH_CHECK(x.size(2 + i) + 2 * window[3 + i] >= reach, "conv_fp32x3: the input is too small");
    }
    TORCH_CHECK(
        weight.size(2) + weight.size(3) + weight.size(4) <= 31 &&
            x.numel() / x.size(0) < (int64_t{1} << 31) &&
            x.size(0) * out[0] * out[1] * out[2] < (int64_t{1} << 31),
        "conv_fp32x3: the sizes are larger than it counts");
    const torch::Tensor shift = kernelwright::parameter(bias, weight.size(0));
    torch::Tensor y = torch::empty({x.size(0), weight.size(0), out[0], out[1], out[2]}, x.options());
    kernelwright::conv::Forward args = {};
    args.x = x.data_ptr<float>();
    args.weight = weight.data_ptr<float>();
    args.bias = static_cast<const float*>(kernelwright::address(shift));
    args.y = y.data_ptr<float>();
    args.images = x.size(0), args.groups = groups;
    args.channels = weight.size(1), args.features = weight.size(0) / groups;
    args.in_d = x.size(2), args.in_h = x.size(3), args.in_w = x.size(4);
    args.out_d = out[0], args.out_h = out[1], args.out_w = out[2];
    args.step_plane = out[0] * out[1] * out[2];
    args.step_d = out[1] * out[2], args.step_h = out[2], args.step_w = 1;
    args.size_d = weight.size(2), args.size_h = weight.size(3), args.size_w = weight.size(4);
    args.stride_d = window[0], args.stride_h = window[1], args.stride_w = window[2];
    args.padding_d = window[3], args.padding_h = window[4], args.padding_w = window[5];
    args.dilation_d = window[6], args.dilation_h = window[7], args.dilation_w = window[8];
    args.stream = at::cuda::getCurrentCUDAStream();
    args.device = x.get_device();
    torch::Tensor workspace =
        torch::empty({kernelwright::conv::forward_workspace(args)}, x.options().dtype(torch::kUInt8));
    args.workspace = workspace.data_ptr();
    C10_CUDA_CHECK(kernelwright::conv::forward(args));
    return y;
}
"""

extension = load_inline(
    name="kernelwright_conv_fp32x3",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["conv_fp32x3"],
    extra_cuda_cflags=["-O3"],
)


def conv_fp32x3(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, conv: nn.Conv1d | nn.Conv2d | nn.Conv3d
) -> torch.Tensor:
    """The convolution of a torch.nn.Conv1d, Conv2d or Conv3d with padding of zeros."""
    space = weight.dim() - 2
    window = [[missing] * (3 - space) + list(sizes) for sizes, missing in
              ((conv.stride, 1), (conv.padding, 0), (conv.dilation, 1))]  # fmt: skip
    wide = [t.reshape(*t.shape[:2], *(1,) * (3 - space), *t.shape[2:]) for t in (x, weight)]
    y: torch.Tensor = extension.conv_fp32x3(*wide, bias, sum(window, []), conv.groups)
    return y.reshape(*y.shape[:2], *y.shape[5 - space :])


class ModelNew(nn.Module):
    """Takes the constructor arguments of `Model` and has its state_dict keys."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return conv_fp32x3(x, self.conv.weight, self.conv.bias, self.conv)
