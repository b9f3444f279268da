"""Softmax of scaled scores [..., queries, keys] under a boolean mask, causal or not.

Inference only: this file has no backward. `agent.kernels` wraps the same device code with a gradient.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
torch::Tensor masked_softmax(torch::Tensor x, torch::Tensor mask, double scale, bool causal);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../csrc/candidate.cuh"

torch::Tensor masked_softmax(torch::Tensor x, torch::Tensor mask, double scale, bool causal) {
    const int64_t dtype = kernelwright::dtype_of(x);
    TORCH_CHECK(x.dim() == 4 && mask.dim() == 4, "masked_softmax: four dimensions are taken");
    TORCH_CHECK(mask.scalar_type() == torch::kBool, "masked_softmax: the mask is not boolean");
    const c10::cuda::CUDAGuard guard(x.device());
    x = x.contiguous();
    mask = mask.contiguous();
    int64_t strides[3];
    for (int64_t d = 0; d < 4; ++d) {
        const bool is_shared = d < 3 && mask.size(d) == 1;
        TORCH_CHECK(is_shared || mask.size(d) == x.size(d), "masked_softmax: sizes do not fit");
        if (d < 3) strides[d] = is_shared ? 0 : mask.stride(d);
    }
    torch::Tensor y = torch::empty(x.sizes(), x.options());
    if (x.numel() == 0) return y;
    const int64_t length = x.size(3);
    C10_CUDA_CHECK(kernelwright::masked_softmax::forward(
        {x.data_ptr(), mask.data_ptr(), y.data_ptr(), x.numel() / length, length, x.size(2), x.size(1),
         strides[0], strides[1], strides[2], kernelwright::masked_softmax::kNamed, scale, causal, 0, dtype,
         at::cuda::getCurrentCUDAStream(), x.get_device()}));
    return y;
}
"""

extension = load_inline(
    name="kernelwright_masked_softmax",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["masked_softmax"],
    extra_cuda_cflags=["-O3"],
)


def masked_softmax(x: torch.Tensor, mask: torch.Tensor, scale: float, causal: bool) -> torch.Tensor:
    """Compute the softmax over the keys where mask is True; with causal, up to each query's own position."""
    y: torch.Tensor = extension.masked_softmax(x, mask, scale, causal)
    return y


class ModelNew(nn.Module):
    """Module with the constructor arguments and the state_dict keys of the reference's `Model`."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return masked_softmax(scores, mask, self.scale, True)
