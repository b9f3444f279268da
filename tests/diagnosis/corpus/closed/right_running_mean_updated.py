# about = "A right answer: the mean itself is carried on, never a sum."
# section = "right"
# problem = "running_mean"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void running_mean(const float* __restrict__ x, float* __restrict__ y, int lines, int steps, int features) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= lines) return;
    size_t at = (size_t)(i / features) * steps * features + i % features;
    double mean = 0.0;
    for (int t = 1; t <= steps; ++t, at += features) {
        mean += ((double)x[at] - mean) / t;
        y[at] = (float)mean;
    }
}

torch::Tensor running_mean_forward(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int lines = x.size(0) * x.size(2);
    running_mean<<<(lines + 31) / 32, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), lines, x.size(1), x.size(2));
    return y;
}
"""

mean_ext = load_inline(
    name="running_mean_welford",
    cpp_sources="torch::Tensor running_mean_forward(torch::Tensor x);",
    cuda_sources=source,
    functions=["running_mean_forward"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return mean_ext.running_mean_forward(x.contiguous())
