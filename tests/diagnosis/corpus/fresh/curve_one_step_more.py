# about = "The range is divided into as many steps as there are knots; the reference has one step fewer."
# section = "mismatch"
# problem = "tone_curve"
# causes = ["align-corners", "wrong-coordinate", "wrong-divisor", "index-off-by-one", "constant-added"]
# says = ["corner|coordinate|place|step|one|n - 1|factor|divis|scale|count|add"]
# stage = ["verify"]

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

__global__ void apply_curve(const float* x, const float* curve, float* y, int n, int C, int plane, int knots, float low, float high) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int c = i / plane % C;
        float u = (x[i] - low) / (high - low);
        u = fminf(fmaxf(u, 0.0f), 1.0f);
        float place = u * knots;
        int k = min((int)place, knots - 2);
        float t = place - k;
        const float* row = curve + c * knots;
        y[i] = row[k] + t * (row[k + 1] - row[k]);
    }
}

torch::Tensor tone_curve(torch::Tensor x, torch::Tensor curve, double low, double high) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    apply_curve<<<min((n + 255) / 256, 64), 256>>>(x.data_ptr<float>(), curve.data_ptr<float>(), y.data_ptr<float>(), n,
        x.size(1), x.size(2) * x.size(3), curve.size(1), low, high);
    return y;
}
"""

DECLARATIONS = """
torch::Tensor tone_curve(torch::Tensor x, torch::Tensor curve, double low, double high);
"""

ext = load_inline(
    name="fused_tone_curve",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["tone_curve"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self, low, high):
        super().__init__()
        self.low, self.high = low, high

    def forward(self, x, curve):
        return ext.tone_curve(x.contiguous(), curve.contiguous(), self.low, self.high)
