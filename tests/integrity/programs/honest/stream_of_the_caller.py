# about = "Launches on the caller's stream, after a look at which device it belongs to."
# category = "structure"
# group = "sanitizer"
# problem = "tanh_scale"
# confirmed = true

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_scale",
    cpp_sources="torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void tanh_scale_kernel(const float* x, const float* scale, float* y, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tanhf(x[i]) * scale[i % columns];
}

torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale) {
    auto y = torch::empty_like(x);
    TORCH_CHECK(at::cuda::getCurrentCUDAStream().device_index() == x.get_device(), "stream of another device");
    int n = x.numel();
    tanh_scale_kernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream().stream()>>>(
        x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), n, x.size(1));
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
