# about = "eps is added to the deviation, not to the variance under the root."
# section = "mismatch"
# problem = "running_zscore"
# causes = ["eps-outside-root"]
# says = ["eps"]
# stage = ["verify"]

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

__global__ void zscore_rows(const float* __restrict__ x, float* __restrict__ out, int rows, int steps, float eps) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    x += row * steps;
    out += row * steps;
    // Welford, one row per thread
    float mean = 0.f, m2 = 0.f;
    for (int t = 0; t < steps; ++t) {
        float v = x[t];
        float delta = v - mean;
        mean += delta / (t + 1);
        m2 += delta * (v - mean);
        float var = m2 / (t + 1);
        out[t] = (v - mean) / (sqrtf(var) + eps);
    }
}

torch::Tensor running_zscore(torch::Tensor x, double eps) {
    auto out = torch::empty_like(x);
    int rows = x.size(0);
    zscore_rows<<<(rows + 31) / 32, 32>>>(x.data_ptr<float>(), out.data_ptr<float>(), rows, x.size(1), (float)eps);
    return out;
}
"""

DECLARATIONS = """
torch::Tensor running_zscore(torch::Tensor x, double eps);
"""

ext = load_inline(
    name="fused_running_zscore",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["running_zscore"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return ext.running_zscore(x.contiguous(), self.eps)
