# about = "float4 for the bulk, single elements for the rest."
# category = "layout"
# problem = "tanh_scale"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_scale",
    cpp_sources="torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale);",
    cuda_sources=r"""
__global__ void tanh_scale_kernel(const float* x, const float* scale, float* y, int n, int columns) {
    int quads = n / 4, at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < quads) {
        float4 v = reinterpret_cast<const float4*>(x)[at];
        int i = 4 * at;
        v.x = tanhf(v.x) * scale[i % columns];
        v.y = tanhf(v.y) * scale[(i + 1) % columns];
        v.z = tanhf(v.z) * scale[(i + 2) % columns];
        v.w = tanhf(v.w) * scale[(i + 3) % columns];
        reinterpret_cast<float4*>(y)[at] = v;
    } else if (at - quads < n % 4) {
        int i = 4 * quads + at - quads;
        y[i] = tanhf(x[i]) * scale[i % columns];
    }
}

torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale) {
    auto y = torch::empty_like(x);
    int n = x.numel(), threads = n / 4 + n % 4;
    tanh_scale_kernel<<<(threads + 127) / 128, 128>>>(
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
