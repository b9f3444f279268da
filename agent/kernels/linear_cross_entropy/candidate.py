"""Cross entropy of a linear layer in float32, in chunks of rows, so that the logits never exist as a whole.

The matrix product is this project's float32 kernel; the operator in `agent.kernels` uses torch's.
Inference only: this file has no backward. `agent.kernels` wraps the same device code with a gradient.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
torch::Tensor linear_cross_entropy(
    torch::Tensor x, torch::Tensor weight, torch::Tensor target, int64_t ignored, double smoothing);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../linear_fp32x3/csrc/launch.cuh"
#include "../csrc/candidate.cuh"

torch::Tensor linear_cross_entropy(
    torch::Tensor x, torch::Tensor weight, torch::Tensor target, int64_t ignored, double smoothing) {
    TORCH_CHECK(
        kernelwright::dtype_of(x) == kernelwright::kFloat32 &&
            kernelwright::dtype_of(weight) == kernelwright::kFloat32,
        "linear_cross_entropy: the operands are float32");
    TORCH_CHECK(
        x.dim() == 2 && weight.dim() == 2 && x.size(1) > 0 && x.size(1) == weight.size(1),
        "linear_cross_entropy: the operands do not fit");
    TORCH_CHECK(
        target.scalar_type() == torch::kInt64 && target.numel() == x.size(0),
        "linear_cross_entropy: the targets are not one int64 for each row");
    const c10::cuda::CUDAGuard guard(x.device());
    const auto stream = at::cuda::getCurrentCUDAStream();
    x = x.contiguous();
    weight = weight.contiguous();
    target = target.contiguous();
    const int64_t rows = x.size(0), classes = weight.size(0);
    torch::Tensor losses = torch::empty({rows}, x.options());
    if (rows == 0) return losses;
    const int64_t chunk = std::min(rows, std::max<int64_t>(1, (int64_t{1} << 27) / classes));
    torch::Tensor logits = torch::empty({chunk, classes}, x.options());
    kernelwright::linear::Forward product = {};
    product.weight = weight.data_ptr<float>();
    product.y = logits.data_ptr<float>();
    product.m = chunk;
    product.n = classes;
    product.k = x.size(1);
    product.precision = kernelwright::linear::kIeee;
    product.stream = stream;
    product.device = x.get_device();
    const int64_t needed = kernelwright::linear::forward_workspace(product);
    torch::Tensor workspace = torch::empty({needed}, x.options().dtype(torch::kUInt8));
    product.workspace = needed == 0 ? nullptr : workspace.data_ptr();
    for (int64_t first = 0; first < rows; first += chunk) {
        product.x = x.data_ptr<float>() + first * product.k;
        product.m = std::min(chunk, rows - first);
        C10_CUDA_CHECK(kernelwright::linear::forward(product));
        C10_CUDA_CHECK(kernelwright::linear_cross_entropy::forward(
            {logits.data_ptr(), target.data_ptr<int64_t>() + first, nullptr, losses.data_ptr<float>() + first,
             product.m, classes, ignored, smoothing, 0.0, 0, kernelwright::kFloat32, stream,
             x.get_device()}));
    }
    return losses;
}
"""

extension = load_inline(
    name="kernelwright_linear_cross_entropy",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["linear_cross_entropy"],
    extra_cuda_cflags=["-O3"],
)


def linear_cross_entropy(
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, ignored: int, smoothing: float
) -> torch.Tensor:
    """Return the loss of each row."""
    losses: torch.Tensor = extension.linear_cross_entropy(x, weight, target, ignored, smoothing)
    return losses


class ModelNew(nn.Module):
    """Module with the constructor arguments and the state_dict keys of the reference's `Model`."""

    def __init__(self, features: int, classes: int, smoothing: float) -> None:
        super().__init__()
        self.linear = nn.Linear(features, classes, bias=False)
        self.smoothing = smoothing

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return linear_cross_entropy(x, self.linear.weight, target, -100, self.smoothing)
