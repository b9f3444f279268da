# about = "Sums the exponentials as they are, without a maximum: they overflow."
# section = "mismatch"
# problem = "logcumsumexp_rows"
# causes = ["lse-without-max", "overflow-to-nan"]
# says = ["max|overflow"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

lcse_source = r"""
#include <torch/extension.h>

__global__ void lcse_kernel(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    int row = blockIdx.x;
    if (threadIdx.x != 0 || row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float* out = y + (size_t)row * cols;
    float sum = 0.0f;
    for (int c = 0; c < cols; ++c) {
        sum += expf(in[c]);
        out[c] = logf(sum);
    }
}

torch::Tensor lcse(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int rows = x.size(0);
    int cols = x.size(1);
    lcse_kernel<<<rows, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}
"""

lcse_ext = load_inline(
    name="lcse_ext",
    cpp_sources="torch::Tensor lcse(torch::Tensor x);",
    cuda_sources=lcse_source,
    functions=["lcse"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return lcse_ext.lcse(x.contiguous())
