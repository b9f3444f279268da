# about = "A right answer: rows first into scratch, then columns."
# section = "right"
# problem = "max_pool_dilated"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__device__ float best_of(const float* line, int step, int first, int n) {
    float best = -INFINITY;
    for (int k = 0; k < 3; ++k) {
        int p = first + 2 * k;
        if (p >= 0 && p < n) best = fmaxf(best, line[(long)p * step]);
    }
    return best;
}

__global__ void across(const float* x, float* t, int total, int W, int OW) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) t[i] = best_of(x + (long)(i / OW) * W, 1, 2 * (i % OW) - 1, W);
}

__global__ void down(const float* t, float* y, int total, int H, int OH, int OW) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int c = i % OW, r = i / OW % OH, p = i / (OW * OH);
    y[i] = best_of(t + (long)p * H * OW + c, OW, 2 * r - 1, H);
}

torch::Tensor pool(torch::Tensor x) {
    int H = x.size(2), W = x.size(3);
    int OH = (H + 2 - 5) / 2 + 1, OW = (W + 2 - 5) / 2 + 1;
    auto t = torch::empty({x.size(0), x.size(1), H, OW}, x.options());
    auto y = torch::empty({x.size(0), x.size(1), OH, OW}, x.options());
    int a = t.numel(), b = y.numel();
    across<<<(a + 127) / 128, 128>>>(x.data_ptr<float>(), t.data_ptr<float>(), a, W, OW);
    down<<<(b + 127) / 128, 128>>>(t.data_ptr<float>(), y.data_ptr<float>(), b, H, OH, OW);
    return y;
}
"""

ext = load_inline(
    name="separable_max",
    cpp_sources="torch::Tensor pool(torch::Tensor x);",
    cuda_sources=source,
    functions=["pool"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.pool(x.contiguous())
