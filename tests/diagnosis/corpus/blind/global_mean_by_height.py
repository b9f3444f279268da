# about = "The sum is divided by the height alone."
# section = "mismatch"
# problem = "global_mean_linear"
# causes = ["wrong-divisor"]
# says = ["divi|count|factor"]
# stage = ["verify"]

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

gap_src = r"""
#include <torch/extension.h>
#include <cub/cub.cuh>

__global__ void global_mean_kernel(const float* x, float* mean, int spatial, int height) {
    typedef cub::BlockReduce<float, 64> Reduce;
    __shared__ typename Reduce::TempStorage temp;
    float v = 0.f;
    for (int i = threadIdx.x; i < spatial; i += 64) v += x[blockIdx.x * spatial + i];
    float sum = Reduce(temp).Sum(v);
    if (threadIdx.x == 0) mean[blockIdx.x] = sum / height;
}

torch::Tensor global_mean(torch::Tensor x) {
    int N = x.size(0), C = x.size(1);
    int spatial = x.size(2) * x.size(3);
    auto mean = torch::empty({N, C}, x.options());
    global_mean_kernel<<<N * C, 64>>>(x.data_ptr<float>(), mean.data_ptr<float>(), spatial, (int)x.size(2));
    return mean;
}
"""

gap = load_inline(name="gap_ext", cpp_sources="torch::Tensor global_mean(torch::Tensor x);", cuda_sources=gap_src, functions=["global_mean"])


class ModelNew(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return F.linear(gap.global_mean(x.contiguous()), self.head.weight, self.head.bias)
