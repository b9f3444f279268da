# about = "fmaxf over tiles of columns into an output filled with minus infinity."
# category = "memory"
# group = "memory"
# problem = "row_max"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_max",
    cpp_sources="torch::Tensor row_max(torch::Tensor x);",
    cuda_sources=r"""
#include <algorithm>

__global__ void tile_kernel(const float* x, float* y, int rows, int columns, int begin, int end) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float largest = y[row];
    for (int i = begin; i < end; ++i) largest = fmaxf(largest, x[row * columns + i]);
    y[row] = largest;
}

torch::Tensor row_max(torch::Tensor x) {
    int rows = x.size(0), columns = x.size(1);
    auto y = torch::full({rows}, -INFINITY, x.options());
    for (int begin = 0; begin < columns; begin += 64)
        tile_kernel<<<(rows + 31) / 32, 32>>>(
            x.data_ptr<float>(), y.data_ptr<float>(), rows, columns, begin, std::min(begin + 64, columns));
    return y;
}
""",
    functions=["row_max"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_max(x.contiguous())
