# about = "Sixteen scratch buffers in turn; outputs are fresh."
# category = "memory"
# group = "reuse"
# problem = "tanh_scale"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_scale",
    cpp_sources="void tanh_into(torch::Tensor x, torch::Tensor y); torch::Tensor scaled(torch::Tensor x, torch::Tensor scale);",
    cuda_sources=r"""
__global__ void tanh_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tanhf(x[i]);
}

__global__ void scaled_kernel(const float* x, const float* scale, float* y, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * scale[i % columns];
}

void tanh_into(torch::Tensor x, torch::Tensor y) {
    int n = x.numel();
    tanh_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
}

torch::Tensor scaled(torch::Tensor x, torch::Tensor scale) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    scaled_kernel<<<(n + 255) / 256, 256>>>(
        x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), n, x.size(1));
    return y;
}
""",
    functions=["tanh_into", "scaled"],
)


RING = []


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x):
        if len(RING) < 16 or RING[0].shape != x.shape:
            RING.append(torch.empty_like(x))
        else:
            RING.append(RING.pop(0))
        ext.tanh_into(x.contiguous(), RING[-1])
        return ext.scaled(RING[-1], self.scale)
