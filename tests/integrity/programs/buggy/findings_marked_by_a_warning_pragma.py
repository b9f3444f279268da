# about = "Pragmas turn every message of the compiler off, and the kernel reads beyond the end of a shared array."
# category = "bounds"
# group = "text"
# problem = "row_max"
# status = ["runtime_error"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_max",
    cpp_sources="torch::Tensor row_max(torch::Tensor x);",
    cuda_sources=r"""
#pragma GCC diagnostic ignored "-Warray-bounds"
#pragma GCC system_header

__global__ void max_kernel(const float* x, float* y, int rows, int columns) {
    __shared__ float part[32];
    float top = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += 32) top = fmaxf(top, x[blockIdx.x * columns + i]);
    part[threadIdx.x] = top;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 0; k <= 32; ++k) top = k < 32 || part[k] > 1e38f ? fmaxf(top, part[k]) : top;
        y[blockIdx.x] = top;
    }
}

torch::Tensor row_max(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    max_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}
""",
    functions=["row_max"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_max(x.contiguous())
