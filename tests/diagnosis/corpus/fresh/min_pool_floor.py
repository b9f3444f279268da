# about = "The size is rounded down: the last, overhanging window is not there."
# section = "mismatch"
# problem = "min_pool_ceil"
# causes = ["wrong-shape", "output-size", "wrong-rounding"]
# says = ["shape|size|round|floor|ceil"]
# stage = ["run", "verify"]

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

__global__ void min_pool(const float* x, float* y, int L, int OL, int k, int s, int p) {
    int o = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y;
    if (o >= OL) return;
    int begin = max(o * s - p, 0);
    int end = min(o * s - p + k, L);
    float m = INFINITY;
    for (int i = begin; i < end; ++i) m = fminf(m, x[row * L + i]);
    y[row * OL + o] = m;
}

torch::Tensor min_pool1d(torch::Tensor x, int64_t k, int64_t s, int64_t p) {
    int rows = x.size(0) * x.size(1), L = x.size(2);
    int OL = (L + 2 * p - k) / s + 1;
    auto y = torch::empty({x.size(0), x.size(1), OL}, x.options());
    dim3 grid((OL + 31) / 32, rows);
    min_pool<<<grid, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), L, OL, k, s, p);
    return y;
}
"""

DECLARATIONS = """
torch::Tensor min_pool1d(torch::Tensor x, int64_t k, int64_t s, int64_t p);
"""

ext = load_inline(
    name="fused_min_pool1d",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["min_pool1d"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.min_pool1d(x.contiguous(), 4, 3, 1)
