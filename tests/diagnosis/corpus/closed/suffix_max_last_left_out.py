# about = "The last element of every row is neither looked at nor written."
# section = "mismatch"
# problem = "suffix_max"
# causes = ["unwritten-output", "last-element-left-out"]
# says = ["last|unwritten|not written|never wr|no thread|one too"]
# stage = ["run", "verify", "integrity"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

suffix_src = r"""
#include <torch/extension.h>
#include <cfloat>

__global__ void suffix_max_kernel(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float best = -FLT_MAX;
    for (int c = cols - 2; c >= 0; --c) {
        best = fmaxf(best, x[row * cols + c]);
        y[row * cols + c] = best;
    }
}

torch::Tensor suffix_max(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int rows = x.size(0);
    suffix_max_kernel<<<(rows + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, x.size(1));
    return y;
}
"""

suffix_ext = load_inline(
    name="suffix_max_ext",
    cpp_sources="torch::Tensor suffix_max(torch::Tensor x);",
    cuda_sources=suffix_src,
    functions=["suffix_max"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return suffix_ext.suffix_max(x.contiguous())
