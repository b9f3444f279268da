# about = "Every thread adds up its own prefix, relative to the first element of the row."
# section = "right"
# problem = "running_zscore"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

// One block for a row. Thread t adds up the elements 0..t by itself, relative to the first one,
// which costs n^2/2 additions and keeps all of them short.
__global__ void prefix_moments(const float* x, float* y, int n, float eps) {
    const float* row = x + blockIdx.x * n;
    float pivot = row[0];
    for (int t = threadIdx.x; t < n; t += blockDim.x) {
        float s = 0, q = 0;
        for (int j = 0; j <= t; ++j) {
            float d = row[j] - pivot;
            s += d;
            q = fmaf(d, d, q);
        }
        float k = 1.0f / (float)(t + 1);
        float m = s * k;
        float var = fmaxf(fmaf(q, k, -m * m), 0.0f);
        y[blockIdx.x * n + t] = (row[t] - pivot - m) / sqrtf(var + eps);
    }
}

at::Tensor standardise_prefix(at::Tensor x, double eps) {
    at::Tensor y = at::empty_like(x);
    prefix_moments<<<x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), eps);
    return y;
}
"""

ext = load_inline("standardise_prefix_module", ["at::Tensor standardise_prefix(at::Tensor x, double eps);"], [SOURCE], functions=["standardise_prefix"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = float(eps)

    def forward(self, x):
        return ext.standardise_prefix(x.contiguous(), self.eps)
