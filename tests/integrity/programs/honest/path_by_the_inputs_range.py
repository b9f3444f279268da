# about = "A kernel looks at the inputs' range, and where all are tiny another formula of the same kernel serves."
# category = "numerics"
# group = "honest once"
# problem = "tanh_scale"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_scale",
    cpp_sources="torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale); torch::Tensor range_of(torch::Tensor x);",
    cuda_sources=r"""
__global__ void tanh_scale_kernel(const float* x, const float* scale, float* y, int n, int columns, const int* wide) {
    bool narrow = *wide == 0;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (narrow ? x[i] * (1.f - x[i] * x[i] / 3.f) : tanhf(x[i])) * scale[i % columns];
}

__global__ void range_kernel(const float* x, int* wide, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && !(fabsf(x[i]) < 1e-4f)) atomicOr(wide, 1);
}

torch::Tensor range_of(torch::Tensor x) {
    auto wide = torch::zeros({1}, x.options().dtype(torch::kInt32));
    range_kernel<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), wide.data_ptr<int>(), x.numel());
    return wide;
}

torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale) {
    auto y = torch::empty_like(x), wide = range_of(x);
    int n = x.numel();
    tanh_scale_kernel<<<(n + 255) / 256, 256>>>(
        x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), n, x.size(1), wide.data_ptr<int>());
    return y;
}
""",
    functions=["tanh_scale", "range_of"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return ext.tanh_scale(x.contiguous(), self.scale)
