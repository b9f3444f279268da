# about = "A right answer: two kernels, the second adds into the output of the first."
# section = "right"
# problem = "triangles"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
// one block per row
__global__ void lower_rows(const float* x, float* out, int rows, int columns) {
    int r = blockIdx.x % rows;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        int i = blockIdx.x * columns + c;
        out[i] = c < r ? x[i] : 0.f;
    }
}

__global__ void upper_rows(const float* y, float* out, int rows, int columns) {
    int r = blockIdx.x % rows;
    for (int c = r + 2 + threadIdx.x; c < columns; c += blockDim.x) out[blockIdx.x * columns + c] += y[blockIdx.x * columns + c];
}

torch::Tensor both(torch::Tensor x, torch::Tensor y) {
    auto out = torch::empty_like(x);
    int rows = x.size(1), columns = x.size(2), blocks = x.size(0) * rows;
    lower_rows<<<blocks, 32>>>(x.data_ptr<float>(), out.data_ptr<float>(), rows, columns);
    upper_rows<<<blocks, 32>>>(y.data_ptr<float>(), out.data_ptr<float>(), rows, columns);
    return out;
}
"""

ext = load_inline(
    name="both_triangles",
    cpp_sources="torch::Tensor both(torch::Tensor x, torch::Tensor y);",
    cuda_sources=source,
    functions=["both"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return ext.both(x.contiguous(), y.contiguous())
