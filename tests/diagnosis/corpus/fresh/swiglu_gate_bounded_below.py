# about = "The gate is bounded on both sides; the reference bounds it above only."
# section = "mismatch"
# problem = "clamped_swiglu"
# causes = ["clamp-bounds"]
# says = ["clamp|bound|limit|below|lower|min"]
# stage = ["verify"]

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

__global__ void swiglu(const float2* __restrict__ x, const float2* __restrict__ bias, float* __restrict__ y, int n, int hidden, float limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float2 v = x[i];
        float2 b = bias[i % hidden];
        float gate = fmaxf(fminf(v.x + b.x, limit), -limit);
        float value = fmaxf(fminf(v.y + b.y, limit), -limit);
        float act = gate / (1.f + expf(-1.702f * gate));
        y[i] = act * (value + 1.f);
    }
}

torch::Tensor clamped_swiglu(torch::Tensor x, torch::Tensor bias, double limit) {
    auto sizes = x.sizes().vec();
    int hidden = sizes.back() / 2;
    sizes.back() = hidden;
    auto y = torch::empty(sizes, x.options());
    int n = y.numel();
    swiglu<<<(n + 127) / 128, 128>>>((const float2*)x.data_ptr<float>(), (const float2*)bias.data_ptr<float>(), y.data_ptr<float>(), n, hidden, (float)limit);
    return y;
}
"""

DECLARATIONS = """
torch::Tensor clamped_swiglu(torch::Tensor x, torch::Tensor bias, double limit);
"""

ext = load_inline(
    name="fused_clamped_swiglu",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["clamped_swiglu"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self, hidden, limit):
        super().__init__()
        self.limit = limit
        self.bias = nn.Parameter(torch.randn(2 * hidden) * 0.2)

    def forward(self, x):
        return ext.clamped_swiglu(x.contiguous(), self.bias, self.limit)
