# about = "Torch computes the norm, and the host reads it back and hands it to a kernel that divides."
# category = "disguise"
# group = "smuggled values"
# problem = "by_largest"
# status = ["rejected"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="by_largest",
    cpp_sources="torch::Tensor by_largest(torch::Tensor x, double largest);",
    cuda_sources=r"""
__global__ void divide_kernel(const float* x, float* y, int n, float largest) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / largest;
}

torch::Tensor by_largest(torch::Tensor x, double largest) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    divide_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, largest);
    return y;
}
""",
    functions=["by_largest"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.by_largest(x.contiguous(), x.abs().amax().item())
