# about = "The CUDA text is made by str.format with the block size."
# category = "python"
# problem = "hardtanh_scale"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

BLOCK = 64
SOURCE = r"""
__global__ void hardtanh_scale_kernel(const float* x, float* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fminf(fmaxf(x[i], -8.f), 8.f) * 1.5f;
}}

torch::Tensor hardtanh_scale(torch::Tensor x) {{
    auto y = torch::empty_like(x);
    int n = x.numel();
    hardtanh_scale_kernel<<<(n + 127) / {block}, {block}>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}}
""".format(block=BLOCK)

ext = load_inline(
    name="hardtanh_scale",
    cpp_sources="torch::Tensor hardtanh_scale(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["hardtanh_scale"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.hardtanh_scale(x.contiguous())
