# about = "One thread for each row, with a compensated sum."
# category = "numerics"
# problem = "cumsum"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="cumsum",
    cpp_sources="torch::Tensor cumsum(torch::Tensor x);",
    cuda_sources=r"""
__global__ void cumsum_kernel(const float* x, float* y, int rows, int columns) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.f, lost = 0.f;
    for (int i = 0; i < columns; ++i) {
        float v = x[r * columns + i] - lost, next = sum + v;
        lost = (next - sum) - v;
        sum = next;
        y[r * columns + i] = sum;
    }
}

torch::Tensor cumsum(torch::Tensor x) {
    auto y = torch::empty_like(x);
    cumsum_kernel<<<(x.size(0) + 31) / 32, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}
""",
    functions=["cumsum"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.cumsum(x.contiguous())
