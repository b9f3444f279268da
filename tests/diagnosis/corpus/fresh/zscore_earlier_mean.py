# about = "Subtracts the mean of the elements before, read before its update."
# section = "mismatch"
# problem = "running_zscore"
# causes = ["state-order", "scan-exclusive", "scan-off-by-one", "index-off-by-one"]
# says = ["before|after|order|update|exclu|shift|off by one|earlier|previous"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

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
        out[t] = delta * rsqrtf(var + eps);
    }
}

torch::Tensor running_zscore(torch::Tensor x, double eps) {
    auto out = torch::empty_like(x);
    int rows = x.size(0);
    zscore_rows<<<(rows + 31) / 32, 32>>>(x.data_ptr<float>(), out.data_ptr<float>(), rows, x.size(1), (float)eps);
    return out;
}
"""

ext = load_inline("running_zscore_module", ["torch::Tensor running_zscore(torch::Tensor x, double eps);"], [SOURCE], functions=["running_zscore"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return ext.running_zscore(x.contiguous(), self.eps)
