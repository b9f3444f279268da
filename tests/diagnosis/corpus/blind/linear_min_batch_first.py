# about = "Fills the (1, F, B, 1) output as if the batch came first."
# section = "mismatch"
# problem = "linear_min_bias"
# causes = ["keepdim-broadcast", "transposed-operand", "layout-misread"]
# says = ["broadcast|transpos|layout|order|shape|dimension"]
# stage = ["verify"]

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

min_bias_src = r"""
#include <torch/extension.h>
#include <cfloat>

__global__ void row_min_kernel(const float* x, float* smallest, int features) {
    float m = FLT_MAX;
    const float* row = x + blockIdx.x * features;
    for (int i = threadIdx.x; i < features; i += 32) m = fminf(m, row[i]);
    for (int o = 16; o > 0; o >>= 1) m = fminf(m, __shfl_down_sync(0xffffffff, m, o));
    if (threadIdx.x == 0) smallest[blockIdx.x] = m;
}

__global__ void add_bias_kernel(const float* smallest, const float* bias, float* out, int batch, int features) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < batch * features) {
        int b = i / features;
        int f = i % features;
        out[i] = smallest[b] + bias[f];
    }
}

torch::Tensor min_bias(torch::Tensor x, torch::Tensor bias) {
    int batch = x.size(0);
    int features = x.size(1);
    auto smallest = torch::empty({batch}, x.options());
    auto out = torch::empty({1, features, batch, 1}, x.options());
    row_min_kernel<<<batch, 32>>>(x.data_ptr<float>(), smallest.data_ptr<float>(), features);
    int total = batch * features;
    add_bias_kernel<<<(total + 255) / 256, 256>>>(smallest.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), batch, features);
    return out;
}
"""

mb = load_inline(name="min_bias_ext", cpp_sources="torch::Tensor min_bias(torch::Tensor x, torch::Tensor bias);", cuda_sources=min_bias_src, functions=["min_bias"])


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.bias = nn.Parameter(torch.randn(1, out_features, 1, 1))

    def forward(self, x):
        return mb.min_bias(F.linear(x, self.linear.weight, self.linear.bias), self.bias)
