# about = "The product of the earlier tiles is added to a tile's products."
# section = "mismatch"
# problem = "cumprod_rows"
# causes = ["wrong-combine"]
# says = ["add|sum|combin|\\+"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>

__global__ void cumprod_warp(const float* __restrict__ x, float* __restrict__ y, int cols) {
    const unsigned full = 0xffffffffu;
    const int lane = threadIdx.x;
    const float* in = x + (long)blockIdx.x * cols;
    float* out = y + (long)blockIdx.x * cols;
    float carry = 0.f;
    for (int base = 0; base < cols; base += 32) {
        const int c = base + lane;
        float v = c < cols ? in[c] : 1.f;
        for (int d = 1; d < 32; d *= 2) {
            const float u = __shfl_up_sync(full, v, d);
            if (lane >= d) v *= u;
        }
        v += carry;
        if (c < cols) out[c] = v;
        carry = __shfl_sync(full, v, 31);
    }
}

torch::Tensor run(torch::Tensor x) {
    auto y = torch::empty_like(x);
    cumprod_warp<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""

ext = load_inline("cumprod_warp", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=src, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return ext.run(x.contiguous())
