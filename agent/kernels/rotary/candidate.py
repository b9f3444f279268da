"""Rotary position embedding of a tensor [..., positions, size] from cached tables [positions, pairs].

Inference only: this file has no backward. `agent.kernels` wraps the same device code with a gradient.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
torch::Tensor rotary(torch::Tensor x, torch::Tensor cos, torch::Tensor sin, bool interleaved);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../csrc/candidate.cuh"

torch::Tensor rotary(torch::Tensor x, torch::Tensor cos, torch::Tensor sin, bool interleaved) {
    const int64_t dtype = kernelwright::dtype_of(x);
    TORCH_CHECK(x.dim() >= 2 && cos.dim() == 2 && sin.sizes() == cos.sizes(), "rotary: sizes do not fit");
    const int64_t positions = x.size(-2), size = x.size(-1), half = cos.size(1);
    TORCH_CHECK(
        cos.size(0) == positions && 2 * half <= size && size % 2 == 0, "rotary: the tables do not fit");
    const c10::cuda::CUDAGuard guard(x.device());
    x = x.contiguous();
    const torch::Tensor cosines = kernelwright::parameter(cos, cos.numel());
    const torch::Tensor sines = kernelwright::parameter(sin, sin.numel());
    torch::Tensor y = torch::empty(x.sizes(), x.options());
    if (x.numel() == 0) return y;
    if (half == 0) return y.copy_(x);
    C10_CUDA_CHECK(kernelwright::rotary::forward(
        {x.data_ptr(), cosines.data_ptr(), sines.data_ptr(), y.data_ptr(), x.numel() / size, 1, positions,
         size, half, 0, interleaved, 0, dtype, kernelwright::dtype_of(cosines, sines, x),
         at::cuda::getCurrentCUDAStream(), x.get_device()}));
    return y;
}
"""

extension = load_inline(
    name="kernelwright_rotary",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["rotary"],
    extra_cuda_cflags=["-O3"],
)


def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """Return x with its pairs rotated: elements half a row apart, or adjacent elements if `interleaved`."""
    y: torch.Tensor = extension.rotary(x, cos, sin, interleaved)
    return y


class ModelNew(nn.Module):
    """Module with the constructor arguments and the state_dict keys of the reference's `Model`."""

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        return rotary(x, cos, sin, False)
