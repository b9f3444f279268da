# about = "The view of every third row is read as if its rows lay one after another in memory."
# section = "mismatch"
# problem = "strided_rows_linear"
# causes = ["layout-misread", "stride-ignored", "index-ignored"]
# says = ["layout|stride|contiguous|view|row|dense"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>

__global__ void linear_rows(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ y,
                            int width, int features) {
    extern __shared__ float row[];
    const float* src = x + blockIdx.x * width;
    for (int j = threadIdx.x; j < width; j += blockDim.x) row[j] = src[j];
    __syncthreads();
    int f = threadIdx.x;
    if (f < features) {
        float s = 0.f;
        #pragma unroll 4
        for (int j = 0; j < width; ++j) s = fmaf(row[j], __ldg(&w[f * width + j]), s);
        y[blockIdx.x * features + f] = s + b[f];
    }
}

torch::Tensor linear_strided(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    int rows = x.size(0), width = x.size(1), features = w.size(0);
    auto y = torch::empty({rows, features}, x.options());
    linear_rows<<<rows, 32, width * sizeof(float)>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
                                                     width, features);
    return y;
}
"""
ls = load_inline(name="linear_strided", cpp_sources="torch::Tensor linear_strided(torch::Tensor x, torch::Tensor w, torch::Tensor b);", cuda_sources=src, functions=["linear_strided"])


class ModelNew(nn.Module):
    def __init__(self, width, features):
        super().__init__()
        self.linear = nn.Linear(width, features)

    def forward(self, x):
        return ls.linear_strided(x.contiguous()[1::3], self.linear.weight, self.linear.bias)
