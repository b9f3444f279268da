# about = "The lengths are those of the weight's columns; the reference has one per row."
# section = "mismatch"
# problem = "weight_norm_linear"
# causes = ["statistics-over-wrong-axes", "wrong-axis", "transposed-operand"]
# says = ["axis|axes|dim|column|row|transpos"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>

__global__ void lengths_kernel(const float* __restrict__ v, float* __restrict__ inverse, int outer, int inner) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= inner) return;
    float acc = 0.f;
    for (int o = 0; o < outer; ++o) {
        const float e = v[o * inner + k];
        acc = fmaf(e, e, acc);
    }
    inverse[k] = rsqrtf(acc);
}

__global__ void linear_kernel(const float* __restrict__ x, const float* __restrict__ v,
                              const float* __restrict__ inverse, const float* __restrict__ g,
                              const float* __restrict__ bias, float* __restrict__ y, int rows, int inner, int outer) {
    const int o = blockIdx.x * blockDim.x + threadIdx.x;
    const int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (o >= outer || r >= rows) return;
    float acc = 0.f;
    for (int k = 0; k < inner; ++k) acc += x[r * inner + k] * v[o * inner + k] * inverse[k];
    y[r * outer + o] = acc * g[o] + bias[o];
}

torch::Tensor wn_linear(torch::Tensor x, torch::Tensor v, torch::Tensor g, torch::Tensor bias) {
    const int rows = x.size(0), inner = x.size(1), outer = v.size(0);
    auto inverse = torch::empty({inner}, x.options());
    auto y = torch::empty({rows, outer}, x.options());
    lengths_kernel<<<(inner + 31) / 32, 32>>>(v.data_ptr<float>(), inverse.data_ptr<float>(), outer, inner);
    dim3 block(16, 8), grid((outer + 15) / 16, (rows + 7) / 8);
    linear_kernel<<<grid, block>>>(x.data_ptr<float>(), v.data_ptr<float>(), inverse.data_ptr<float>(),
                                   g.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), rows, inner,
                                   outer);
    return y;
}
"""

wn = load_inline(
    name="wn_linear",
    cpp_sources="torch::Tensor wn_linear(torch::Tensor x, torch::Tensor v, torch::Tensor g, torch::Tensor bias);",
    cuda_sources=src,
    functions=["wn_linear"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.direction = nn.Parameter(torch.randn(outer, inner))
        self.length = nn.Parameter(torch.rand(outer) + 0.5)
        self.bias = nn.Parameter(torch.randn(outer))

    def forward(self, x):
        return wn.wn_linear(x.contiguous(), self.direction, self.length, self.bias)
