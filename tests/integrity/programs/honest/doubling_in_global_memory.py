# about = "Running sums by doubled steps in global memory, with a barrier before and after each store."
# category = "memory"
# group = "order"
# problem = "cumsum"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="cumsum",
    cpp_sources="torch::Tensor cumsum(torch::Tensor x);",
    cuda_sources=r"""
__global__ void cumsum_kernel(const float* x, float* y, int columns) {
    x += blockIdx.x * columns, y += blockIdx.x * columns;
    int i = threadIdx.x;
    y[i] = x[i];
    __syncthreads();
    for (int step = 1; step < columns; step *= 2) {
        float sum = i >= step ? y[i] + y[i - step] : y[i];
        __syncthreads();
        y[i] = sum;
        __syncthreads();
    }
}

torch::Tensor cumsum(torch::Tensor x) {
    auto y = torch::empty_like(x);
    TORCH_CHECK(x.size(1) <= 1024, "rows of up to 1024 elements only");
    cumsum_kernel<<<x.size(0), x.size(1)>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["cumsum"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.cumsum(x.contiguous())
