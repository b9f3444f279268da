# about = "A softmax over few numbers whose maximum one thread finds in order."
# category = "numerics"
# group = "numerics"
# problem = "softmax_of_shares"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="softmax",
    cpp_sources="torch::Tensor softmax(torch::Tensor x);",
    cuda_sources=r"""
__global__ void softmax_kernel(const float* x, float* y, int columns) {
    x += blockIdx.x * columns, y += blockIdx.x * columns;
    float sum = 0.f;
    float largest = x[0];
    for (int i = 1; i < columns; ++i) largest = fmaxf(largest, x[i]);
    for (int i = threadIdx.x; i < columns; i += 32) sum += expf(x[i] - largest);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    for (int i = threadIdx.x; i < columns; i += 32) y[i] = expf(x[i] - largest) / sum;
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
