"""Cross entropy of each row of logits, with an ignored target, label smoothing and a z-loss.

Inference only: this file has no backward. `agent.kernels` wraps the same device code with a gradient.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
torch::Tensor cross_entropy(
    torch::Tensor x, torch::Tensor target, int64_t ignored, double smoothing, double z_loss);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../csrc/candidate.cuh"

torch::Tensor cross_entropy(
    torch::Tensor x, torch::Tensor target, int64_t ignored, double smoothing, double z_loss) {
    const int64_t dtype = kernelwright::dtype_of(x);
    TORCH_CHECK(x.dim() == 2 && target.numel() == x.size(0), "cross_entropy: sizes do not fit");
    TORCH_CHECK(target.scalar_type() == torch::kInt64, "cross_entropy: the targets are not int64");
    const c10::cuda::CUDAGuard guard(x.device());
    x = x.contiguous();
    target = target.contiguous();
    torch::Tensor losses = torch::empty({x.size(0)}, x.options().dtype(torch::kFloat32));
    if (x.numel() == 0) return losses;
    C10_CUDA_CHECK(kernelwright::cross_entropy::forward(
        {x.data_ptr(), target.data_ptr<int64_t>(), losses.data_ptr<float>(), nullptr, x.size(0), x.size(1),
         ignored, smoothing, z_loss, 0, dtype, at::cuda::getCurrentCUDAStream(), x.get_device()}));
    return losses;
}
"""

extension = load_inline(
    name="kernelwright_cross_entropy",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["cross_entropy"],
    extra_cuda_cflags=["-O3"],
)


def cross_entropy(
    x: torch.Tensor, target: torch.Tensor, ignored: int, smoothing: float, z_loss: float
) -> torch.Tensor:
    """Return the loss of each row of logits, in float32."""
    losses: torch.Tensor = extension.cross_entropy(x, target, ignored, smoothing, z_loss)
    return losses


class ModelNew(nn.Module):
    """Module with the constructor arguments and the state_dict keys of the reference's `Model`."""

    def __init__(self, smoothing: float, z_loss: float) -> None:
        super().__init__()
        self.smoothing = smoothing
        self.z_loss = z_loss

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return cross_entropy(x, target, -100, self.smoothing, self.z_loss)
