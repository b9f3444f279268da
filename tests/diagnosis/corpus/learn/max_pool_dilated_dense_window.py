# about = "The window's elements lie side by side: the dilation is not used."
# section = "mismatch"
# problem = "max_pool_dilated"
# causes = ["dilation-ignored"]
# says = ["dilat"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>

struct Geometry {
    int in_h, in_w, out_h, out_w;
    int kernel, stride, padding, dilation;
};

__global__ void max_pool_kernel(const float* __restrict__ x, float* __restrict__ y, Geometry g, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += blockDim.x * gridDim.x) {
        const int ow = i % g.out_w;
        const int oh = i / g.out_w % g.out_h;
        const float* plane = x + (i / (g.out_w * g.out_h)) * g.in_h * g.in_w;
        const int top = oh * g.stride - g.padding;
        const int left = ow * g.stride - g.padding;
        float m = -INFINITY;
        for (int kh = 0; kh < g.kernel; ++kh) {
            const int h = top + kh;
            if (h < 0 || h >= g.in_h) continue;
            for (int kw = 0; kw < g.kernel; ++kw) {
                const int w = left + kw;
                if (w >= 0 && w < g.in_w) m = fmaxf(m, plane[h * g.in_w + w]);
            }
        }
        y[i] = m;
    }
}

torch::Tensor max_pool(torch::Tensor x) {
    Geometry g;
    g.in_h = x.size(2);
    g.in_w = x.size(3);
    g.kernel = 3;
    g.stride = 2;
    g.padding = 1;
    g.dilation = 2;
    const int reach = g.dilation * (g.kernel - 1) + 1;
    g.out_h = (g.in_h + 2 * g.padding - reach) / g.stride + 1;
    g.out_w = (g.in_w + 2 * g.padding - reach) / g.stride + 1;
    auto y = torch::empty({x.size(0), x.size(1), g.out_h, g.out_w}, x.options());
    const int total = y.numel();
    max_pool_kernel<<<8, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), g, total);
    return y;
}
"""

pool_ext = load_inline(
    name="max_pool_dilated_ext",
    cpp_sources="torch::Tensor max_pool(torch::Tensor x);",
    cuda_sources=src,
    functions=["max_pool"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return pool_ext.max_pool(x.contiguous())
