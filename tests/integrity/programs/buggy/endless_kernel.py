# about = "A loop of the kernel never ends."
# category = "crashes"
# problem = "relu_square"
# status = ["timeout"]
# finding = 'timeout'
# timeout_s = 6

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="relu_square",
    cpp_sources="torch::Tensor relu_square(torch::Tensor x);",
    cuda_sources=r"""
__device__ volatile float spin = 1.f;

__global__ void relu_square_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (spin > 0.f) spin = 3.f - spin;
    if (i < n) y[i] = x[i] > 0.f ? x[i] * x[i] : 0.f;
}

torch::Tensor relu_square(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    relu_square_kernel<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
""",
    functions=["relu_square"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.relu_square(x.contiguous())
