# about = "Keeps a table as a plain attribute, which no cuda() moves."
# category = "bounds"
# problem = "tanh_scale"
# status = ["runtime_error"]
# finding = 'host-pointer'

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_scale",
    cpp_sources="torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale, torch::Tensor bounds);",
    cuda_sources=r"""
__global__ void tanh_scale_kernel(
    const float* x, const float* scale, const float* bounds, float* y, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = tanhf(x[i]) * scale[i % columns];
    y[i] = fminf(fmaxf(value, bounds[0]), bounds[1]);
}

torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale, torch::Tensor bounds) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    tanh_scale_kernel<<<(n + 255) / 256, 256>>>(
        x.data_ptr<float>(), scale.data_ptr<float>(), bounds.data_ptr<float>(), y.data_ptr<float>(), n,
        x.size(1));
    return y;
}
""",
    functions=["tanh_scale"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.bounds = torch.tensor([-1e30, 1e30])

    def forward(self, x):
        return ext.tanh_scale(x.contiguous(), self.scale, self.bounds)
