# about = "Sums over tiles of columns, launch after launch, into zeros."
# category = "memory"
# group = "memory"
# problem = "row_stats"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_stats",
    cpp_sources="std::vector<torch::Tensor> row_stats(torch::Tensor x);",
    cuda_sources=r"""
#include <algorithm>

__global__ void part_kernel(const float* x, float* y, int rows, int columns, int begin, int end) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = y[row];
    for (int i = begin; i < end; ++i) sum += x[row * columns + i] / columns;
    y[row] = sum;
}

__global__ void largest_kernel(const float* x, float* y, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float largest = x[row * columns];
    for (int i = 1; i < columns; ++i) largest = fmaxf(largest, x[row * columns + i]);
    y[row] = largest;
}

std::vector<torch::Tensor> row_stats(torch::Tensor x) {
    int rows = x.size(0), columns = x.size(1);
    auto mean = torch::zeros({rows}, x.options()), largest = torch::empty({rows}, x.options());
    for (int begin = 0; begin < columns; begin += 50)
        part_kernel<<<(rows + 31) / 32, 32>>>(
            x.data_ptr<float>(), mean.data_ptr<float>(), rows, columns, begin, std::min(begin + 50, columns));
    largest_kernel<<<(rows + 31) / 32, 32>>>(x.data_ptr<float>(), largest.data_ptr<float>(), rows, columns);
    return {mean, largest};
}
""",
    functions=["row_stats"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        mean, largest = ext.row_stats(x.contiguous())
        return mean, largest
