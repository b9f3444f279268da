# about = "Right in everything."
# section = "right"
# problem = "l2_normalize"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

l2_src = r"""
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__global__ void l2_columns(const float* x, float* y, int rows, int cols, float eps) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    float ss = 0.f;
    for (int r = 0; r < rows; ++r) {
        float v = x[r * cols + c];
        ss += v * v;
    }
    float norm = fmaxf(sqrtf(ss), eps);
    for (int r = 0; r < rows; ++r) y[r * cols + c] = x[r * cols + c] / norm;
}

torch::Tensor l2_normalize(torch::Tensor x, double eps) {
    auto y = torch::empty_like(x);
    int rows = x.size(0), cols = x.size(1);
    l2_columns<<<(cols + 31) / 32, 32, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols, (float)eps);
    return y;
}
"""

l2 = load_inline(name="l2_norm_cols", cpp_sources="torch::Tensor l2_normalize(torch::Tensor x, double eps);", cuda_sources=l2_src, functions=["l2_normalize"])


class ModelNew(nn.Module):
    def forward(self, x):
        return l2.l2_normalize(x.contiguous(), 0.5)
