# about = "The last block to count gathers what others wrote, and nobody ran a fence before counting."
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
__device__ int counted[4096];
__device__ float parts[4096 * 4];

__global__ void max_kernel(const float* x, float* y, int rows, int columns) {
    int row = blockIdx.x / 4, part = blockIdx.x % 4;
    float top = -INFINITY;
    for (int i = part; i < columns; i += 4) top = fmaxf(top, x[row * columns + i]);
    parts[blockIdx.x] = top;
    if (atomicAdd(&counted[row], 1) == 3) {
        for (int k = 0; k < 4; ++k) top = fmaxf(top, parts[row * 4 + k]);
        y[row] = top;
        counted[row] = 0;
    }
}

torch::Tensor row_max(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    max_kernel<<<4 * x.size(0), 1>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}
""",
    functions=["row_max"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_max(x.contiguous())
