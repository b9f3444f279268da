# about = "The mean of halves with a sum in half: coarse as soon as the elements do not cancel."
# category = "values"
# group = "numerics"
# problem = "half_row_mean"
# status = ["incorrect", "runtime_error", "rejected"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="half_row_mean",
    cpp_sources="torch::Tensor half_row_mean(torch::Tensor x);",
    cuda_sources=r"""
#include <cuda_fp16.h>

__global__ void half_row_mean_kernel(const __half* x, __half* y, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    x += row * columns;
    __half sum = __float2half(0.f);
    for (int i = 0; i < columns; ++i) sum = __hadd(sum, x[i]);
    y[row] = __float2half(__half2float(sum) / columns);
}

torch::Tensor half_row_mean(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    int rows = x.size(0);
    half_row_mean_kernel<<<(rows + 31) / 32, 32>>>(reinterpret_cast<const __half*>(x.data_ptr<at::Half>()),
                                                   reinterpret_cast<__half*>(y.data_ptr<at::Half>()), rows, x.size(1));
    return y;
}
""",
    functions=["half_row_mean"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.half_row_mean(x.contiguous())
