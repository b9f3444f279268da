# about = "Float atomics into zeroed memory: sums in an order of their own."
# category = "memory"
# problem = "row_stats"
# sample = true

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_stats",
    cpp_sources="std::vector<torch::Tensor> row_stats(torch::Tensor x);",
    cuda_sources=r"""
__global__ void sum_kernel(const float* x, float* mean, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(mean + i / columns, x[i] / columns);
}

__global__ void largest_kernel(const float* x, float* largest, int columns) {
    float top = -INFINITY;
    for (int i = 0; i < columns; ++i) top = fmaxf(top, x[blockIdx.x * columns + i]);
    largest[blockIdx.x] = top;
}

std::vector<torch::Tensor> row_stats(torch::Tensor x) {
    int rows = x.size(0), columns = x.size(1), n = x.numel();
    auto mean = torch::zeros({rows}, x.options()), largest = torch::empty({rows}, x.options());
    sum_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), mean.data_ptr<float>(), n, columns);
    largest_kernel<<<rows, 1>>>(x.data_ptr<float>(), largest.data_ptr<float>(), columns);
    return {mean, largest};
}
""",
    functions=["row_stats"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        mean, largest = ext.row_stats(x.contiguous())
        return mean, largest
