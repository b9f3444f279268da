# about = "The block of a chunk of columns goes on from what the block before it has stored."
# category = "races"
# group = "order"
# problem = "cumsum"
# status = ["incorrect", "runtime_error", "rejected"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="cumsum",
    cpp_sources="torch::Tensor cumsum(torch::Tensor x);",
    cuda_sources=r"""
__global__ void cumsum_kernel(const float* x, float* y, int columns) {
    int begin = blockIdx.x * 32, end = min(begin + 32, columns);
    x += blockIdx.y * columns, y += blockIdx.y * columns;
    if (threadIdx.x != 0) return;
    float sum = begin ? y[begin - 1] : 0.f;
    for (int i = begin; i < end; ++i) y[i] = sum += x[i];
}

torch::Tensor cumsum(torch::Tensor x) {
    auto y = torch::empty_like(x);
    cumsum_kernel<<<dim3((x.size(1) + 31) / 32, x.size(0)), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["cumsum"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.cumsum(x.contiguous())
