"""Convolutions of float32 with float32 accuracy in 1, 2 and 3 dimensions.

Any stride, padding, dilation and groups. The file for sm_90 computes on the tensor cores, every other GPU in
float32 arithmetic.

Inference only: this file has no backward. `agent.kernels` wraps the same device code with a gradient.
"""

from itertools import product
from math import gcd

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
#include <optional>
#include <vector>

void conv_fp32x3(
    torch::Tensor x, torch::Tensor weight, std::optional<torch::Tensor> bias, torch::Tensor y,
    std::vector<int64_t> window, int64_t groups);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../csrc/candidate.cuh"

// Into y [n, features, d, h, w], which may be every other pixel of a larger tensor. `window`: stride, padding
// and dilation, in three dimensions as x [n, channels, d, h, w] and the weight; the padding behind x follows
// from y's size.
void conv_fp32x3(
    torch::Tensor x, torch::Tensor weight, std::optional<torch::Tensor> bias, torch::Tensor y,
    std::vector<int64_t> window, int64_t groups) {
    TORCH_CHECK(
        kernelwright::dtype_of(x) == kernelwright::kFloat32 &&
            kernelwright::dtype_of(weight) == kernelwright::kFloat32 &&
            kernelwright::dtype_of(y) == kernelwright::kFloat32,
        "conv_fp32x3: the operands are float32");
    TORCH_CHECK(
        x.dim() == 5 && weight.dim() == 5 && y.dim() == 5 && window.size() == 9 && groups > 0 &&
            weight.size(0) % groups == 0 && x.size(1) == groups * weight.size(1) && y.size(0) == x.size(0) &&
            y.size(1) == weight.size(0) && y.stride(0) == y.size(1) * y.stride(1) && x.numel() > 0 &&
            weight.numel() > 0 && y.numel() > 0,
        "conv_fp32x3: the operands do not fit");
    TORCH_CHECK(
        weight.size(2) + weight.size(3) + weight.size(4) <= 31 &&
            x.numel() / x.size(0) < (int64_t{1} << 31) && y.numel() / y.size(1) < (int64_t{1} << 31),
        "conv_fp32x3: the sizes are larger than it counts");
    const c10::cuda::CUDAGuard guard(x.device());
    x = x.contiguous();
    weight = weight.contiguous();
    const torch::Tensor shift = kernelwright::parameter(bias, weight.size(0));
    kernelwright::conv::Forward args = {};
    args.x = x.data_ptr<float>();
    args.weight = weight.data_ptr<float>();
    args.bias = static_cast<const float*>(kernelwright::address(shift));
    args.y = y.data_ptr<float>();
    args.images = x.size(0), args.groups = groups;
    args.channels = weight.size(1), args.features = weight.size(0) / groups;
    args.in_d = x.size(2), args.in_h = x.size(3), args.in_w = x.size(4);
    args.out_d = y.size(2), args.out_h = y.size(3), args.out_w = y.size(4);
    args.step_plane = y.stride(1);
    args.step_d = y.stride(2), args.step_h = y.stride(3), args.step_w = y.stride(4);
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
}
"""

extension = load_inline(
    name="kernelwright_conv_fp32x3",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["conv_fp32x3"],
    extra_cuda_cflags=["-O3"],
)


Ways = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Stride, padding and dilation, each with one number per dimension."""


def _wide(sizes: tuple[int, ...], missing: int) -> list[int]:
    """Return the sizes for three dimensions, with `missing` for the dimensions in front."""
    return [missing] * (3 - len(sizes)) + list(sizes)


def _in_three(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(*x.shape[:2], *(1,) * (5 - x.dim()), *x.shape[2:])


def conv_fp32x3(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, ways: Ways, groups: int = 1
) -> torch.Tensor:
    """Return torch.conv1d, conv2d or conv3d, by the rank of x."""
    window = [size for sizes, missing in zip(ways, (1, 0, 1), strict=True) for size in _wide(sizes, missing)]
    a, w = _in_three(x), _in_three(weight)
    sizes = [
        (a.shape[2 + i] + 2 * window[3 + i] - window[6 + i] * (w.shape[2 + i] - 1) - 1) // window[i] + 1
        for i in range(3)
    ]
    y = torch.empty((x.shape[0], weight.shape[0], *sizes), device=x.device)
    if y.numel():
        extension.conv_fp32x3(a, w, bias, y, window, groups)
    return y.view(*y.shape[:2], *y.shape[7 - x.dim() :])


def conv_transpose_fp32x3(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, ways: Ways,
    output_padding: tuple[int, ...], groups: int = 1,
) -> torch.Tensor:  # fmt: skip
    """Return torch.conv_transpose1d, 2d or 3d, by the rank of x.

    Output position o reads input (o + padding - tap * dilation) / stride where that is an integer. Each
    remainder of o modulo the stride is a convolution whose taps run backwards over the input.
    """
    by, pad, step = (_wide(sizes, missing) for sizes, missing in zip(ways, (1, 0, 1), strict=True))
    more, a, w = _wide(output_padding, 0), _in_three(x), _in_three(weight)
    sizes = [
        (a.shape[2 + i] - 1) * by[i] - 2 * pad[i] + step[i] * (w.shape[2 + i] - 1) + more[i] + 1
        for i in range(3)
    ]
    features = weight.shape[1]
    turned = w.view(groups, -1, *w.shape[1:]).transpose(1, 2).reshape(groups * features, -1, *w.shape[2:])
    y = torch.empty((x.shape[0], groups * features, *sizes), device=x.device)
    for begin in product(*(range(min(by[i], sizes[i])) for i in range(3))):
        chosen, places, first = [slice(None)] * 2, [slice(None)] * 2, []
        for i, at in enumerate(begin):
            taps = [t for t in range(w.shape[2 + i]) if (at + pad[i] - t * step[i]) % by[i] == 0]
            chosen.append(slice(taps[0], None, by[i] // gcd(by[i], step[i])) if taps else slice(0))
            places.append(slice(at, None, by[i]))
            first.append(-((at + pad[i] - taps[0] * step[i]) // by[i]) if taps else 0)
        part, place = turned[tuple(chosen)], y[tuple(places)]
        if not part.numel():
            place[:] = 0.0 if bias is None else bias.view(-1, 1, 1, 1)
            continue
        window = [1, 1, 1, *first, *(-step[i] // gcd(by[i], step[i]) for i in range(3))]
        extension.conv_fp32x3(a, part, bias, place, window, groups)
    return y.view(*y.shape[:2], *y.shape[7 - x.dim() :])


class ModelNew(nn.Module):
    """Module with the constructor arguments and the state_dict keys of the reference's `Model`."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        conv = self.conv
        return conv_fp32x3(x, conv.weight, conv.bias, ((1, 1), (1, 1), (1, 1)))
