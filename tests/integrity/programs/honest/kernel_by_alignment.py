# about = "Addresses that are multiples of 16 go to a kernel with vectors, others to a plain one."
# category = "layout"
# group = "honest once"
# problem = "tanh_scale"
# confirmed = true

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_scale",
    cpp_sources="torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale);",
    cuda_sources=r"""
__global__ void tanh_scale_kernel(const float* x, const float* scale, float* y, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tanhf(x[i]) * scale[i % columns];
}

__global__ void tanh_scale_vector_kernel(const float4* x, const float* scale, float4* y, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = x[i];
    int c = 4 * i;
    v.x = tanhf(v.x) * scale[c % columns];
    v.y = tanhf(v.y) * scale[(c + 1) % columns];
    v.z = tanhf(v.z) * scale[(c + 2) % columns];
    v.w = tanhf(v.w) * scale[(c + 3) % columns];
    y[i] = v;
}

torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale) {
    auto y = torch::empty_like(x);
    int n = x.numel(), columns = x.size(1);
    bool aligned = n % 4 == 0 && reinterpret_cast<uintptr_t>(x.data_ptr<float>()) % 16 == 0 &&
                   reinterpret_cast<uintptr_t>(y.data_ptr<float>()) % 16 == 0;
    if (aligned)
        tanh_scale_vector_kernel<<<(n / 4 + 127) / 128, 128>>>(
            reinterpret_cast<const float4*>(x.data_ptr<float>()), scale.data_ptr<float>(),
            reinterpret_cast<float4*>(y.data_ptr<float>()), n / 4, columns);
    else
        tanh_scale_kernel<<<(n + 127) / 128, 128>>>(
            x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), n, columns);
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
