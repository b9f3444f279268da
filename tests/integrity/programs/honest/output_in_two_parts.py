# about = "Two kernels write the two halves of an output that nobody has set."
# category = "memory"
# group = "memory"
# problem = "tanh_scale"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_scale",
    cpp_sources="torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale);",
    cuda_sources=r"""
__global__ void tanh_scale_kernel(const float* x, const float* scale, float* y, int begin, int n, int columns) {
    int i = begin + blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tanhf(x[i]) * scale[i % columns];
}

torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale) {
    auto y = torch::empty_like(x);
    int n = x.numel(), half = n / 2;
    tanh_scale_kernel<<<(half + 63) / 64, 64>>>(
        x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), 0, half, x.size(1));
    tanh_scale_kernel<<<(n - half + 63) / 64, 64>>>(
        x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), half, n, x.size(1));
    return y;
}
""",
    functions=["tanh_scale"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return ext.tanh_scale(x.contiguous(), self.scale)
