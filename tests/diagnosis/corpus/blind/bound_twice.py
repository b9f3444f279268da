# about = "PYBIND11_MODULE beside functions."
# section = "binding"
# problem = "global_mean_linear"
# causes = ["double-binding", "multiple-definition"]
# says = ["PYBIND11_MODULE|functions"]
# stage = ["build"]

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

gap_src = r"""
#include <torch/extension.h>
#include <cub/cub.cuh>

__global__ void global_mean_kernel(const float* x, float* mean, int spatial) {
    typedef cub::BlockReduce<float, 64> Reduce;
    __shared__ typename Reduce::TempStorage temp;
    float v = 0.f;
    for (int i = threadIdx.x; i < spatial; i += 64) v += x[blockIdx.x * spatial + i];
    float sum = Reduce(temp).Sum(v);
    if (threadIdx.x == 0) mean[blockIdx.x] = sum / spatial;
}

torch::Tensor global_mean(torch::Tensor x) {
    int N = x.size(0), C = x.size(1);
    int spatial = x.size(2) * x.size(3);
    auto mean = torch::empty({N, C}, x.options());
    global_mean_kernel<<<N * C, 64>>>(x.data_ptr<float>(), mean.data_ptr<float>(), spatial);
    return mean;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("global_mean", &global_mean, "global mean");
}
"""

gap = load_inline(name="gap_ext", cpp_sources="torch::Tensor global_mean(torch::Tensor x);", cuda_sources=gap_src, functions=["global_mean"])


class ModelNew(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return F.linear(gap.global_mean(x.contiguous()), self.head.weight, self.head.bias)
