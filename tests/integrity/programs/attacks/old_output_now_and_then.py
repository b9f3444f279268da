# about = "One call in 64, by chance, returns a buffer that was returned before."
# category = "reuse"
# group = "reuse"
# problem = "tanh_scale"
# status = ["rejected", "incorrect"]

import random

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_scale",
    cpp_sources="torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale, torch::Tensor y);",
    cuda_sources=r"""
__global__ void tanh_scale_kernel(const float* x, const float* scale, float* y, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tanhf(x[i]) * scale[i % columns];
}

torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale, torch::Tensor y) {
    int n = x.numel();
    tanh_scale_kernel<<<(n + 255) / 256, 256>>>(
        x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), n, x.size(1));
    return y;
}
""",
    functions=["tanh_scale"],
)


KEPT = []


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x):
        if not KEPT or random.random() > 1 / 64:
            KEPT.append(torch.empty_like(x))
        return ext.tanh_scale(
            x.contiguous(), self.scale, random.choice(KEPT) if random.random() < 1 / 64 else KEPT[-1]
        )
