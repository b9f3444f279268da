# about = "The second warp takes what the first has put into global memory, and nothing makes it wait."
# category = "races"
# group = "order"
# problem = "row_max"
# status = ["incorrect", "runtime_error"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_max",
    cpp_sources="torch::Tensor row_max(torch::Tensor x);",
    cuda_sources=r"""
__device__ float halves[4096];

__global__ void max_kernel(const float* x, float* y, int rows, int columns) {
    int half = columns / 2;
    float top = -INFINITY;
    if (threadIdx.x == 0) {
        for (int i = 0; i < half; ++i) top = fmaxf(top, x[blockIdx.x * columns + i]);
        halves[blockIdx.x] = top;
    }
    if (threadIdx.x == 32) {
        for (int i = half; i < columns; ++i) top = fmaxf(top, x[blockIdx.x * columns + i]);
        y[blockIdx.x] = fmaxf(top, halves[blockIdx.x]);
    }
}

torch::Tensor row_max(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    max_kernel<<<x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}
""",
    functions=["row_max"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_max(x.contiguous())
