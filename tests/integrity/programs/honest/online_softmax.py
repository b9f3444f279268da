# about = "Maximum and sum in one sweep over the row, rescaled on the way."
# category = "numerics"
# problem = "softmax"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="softmax",
    cpp_sources="torch::Tensor softmax(torch::Tensor x);",
    cuda_sources=r"""
__global__ void softmax_kernel(const float* x, float* y, int columns) {
    const float* row = x + blockIdx.x * columns;
    float largest = -1e30f, sum = 0.f;
    for (int i = threadIdx.x; i < columns; i += 32) {
        float next = fmaxf(largest, row[i]);
        sum = sum * expf(largest - next) + expf(row[i] - next);
        largest = next;
    }
    for (int o = 16; o > 0; o /= 2) {
        float other = __shfl_xor_sync(0xffffffff, largest, o), more = __shfl_xor_sync(0xffffffff, sum, o);
        float next = fmaxf(largest, other);
        sum = sum * expf(largest - next) + more * expf(other - next);
        largest = next;
    }
    for (int i = threadIdx.x; i < columns; i += 32) y[blockIdx.x * columns + i] = expf(row[i] - largest) / sum;
}

torch::Tensor softmax(torch::Tensor x) {
    auto y = torch::empty_like(x);
    softmax_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["softmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.softmax(x.contiguous())
