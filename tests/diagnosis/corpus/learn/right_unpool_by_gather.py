# about = "A right answer: every output element asks whether it is its window's maximum."
# section = "right"
# problem = "max_unpool"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

gather_src = r"""
#include <torch/extension.h>

__global__ void gather_kernel(const float* __restrict__ x, float* __restrict__ y, int total, int H, int W) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int c = i % W, r = (i / W) % H;
        int corner = i - (r & 1) * W - (c & 1);
        int own = 2 * (r & 1) + (c & 1);
        float v[4] = {x[corner], x[corner + 1], x[corner + W], x[corner + W + 1]};
        int winner = 0;
        #pragma unroll
        for (int k = 1; k < 4; ++k)
            if (v[k] > v[winner] || v[k] != v[k]) winner = k;
        y[i] = winner == own ? v[own] : 0.f;
    }
}

torch::Tensor unpool(torch::Tensor x) {
    TORCH_CHECK(x.size(2) % 2 == 0 && x.size(3) % 2 == 0);
    auto y = torch::empty_like(x);
    gather_kernel<<<6, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel(), x.size(2), x.size(3));
    return y;
}
"""

gather = load_inline(
    name="unpool_gather",
    cpp_sources="torch::Tensor unpool(torch::Tensor x);",
    cuda_sources=gather_src,
    functions=["unpool"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return gather.unpool(x.contiguous())
