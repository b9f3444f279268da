# about = "The left operand is read with the number of columns as its stride from head to head."
# section = "mismatch"
# problem = "outer_sum_tanh"
# causes = ["layout-misread", "keepdim-broadcast", "transposed-operand"]
# says = ["stride|layout|left|first|operand|ind|broadcast"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>

__global__ void pair_kernel(const float* __restrict__ left, const float* __restrict__ right, const float* __restrict__ scale,
                            float* __restrict__ out, int heads, int rows, int cols) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int stride = gridDim.x * blockDim.x;
    for (int i = idx; i < heads * rows * cols; i += stride) {
        int c = i % cols;
        int r = (i / cols) % rows;
        int h = i / (cols * rows);
        float s = left[h * cols + r] + right[h * cols + c];
        out[i] = scale[h] * tanhf(s);
    }
}

torch::Tensor pairs(torch::Tensor left, torch::Tensor right, torch::Tensor scale) {
    auto out = torch::empty({left.size(0), left.size(1), right.size(1)}, left.options());
    pair_kernel<<<8, 128>>>(left.data_ptr<float>(), right.data_ptr<float>(), scale.data_ptr<float>(), out.data_ptr<float>(),
                            left.size(0), left.size(1), right.size(1));
    return out;
}
"""
pairs_ext = load_inline(name="pairs_ext", cpp_sources="torch::Tensor pairs(torch::Tensor left, torch::Tensor right, torch::Tensor scale);", cuda_sources=cuda_source, functions=["pairs"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(heads) + 0.5)

    def forward(self, left, right):
        return pairs_ext.pairs(left.contiguous(), right.contiguous(), self.scale)
