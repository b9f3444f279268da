# about = "The result is written over the input, which is then returned."
# category = "aliasing"
# problem = "hardtanh_scale"
# status = ["rejected"]
# finding = 'input'

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="hardtanh_scale",
    cpp_sources="torch::Tensor hardtanh_scale(torch::Tensor x);",
    cuda_sources=r"""
__global__ void hardtanh_scale_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fminf(fmaxf(x[i], -8.f), 8.f) * 1.5f;
}

torch::Tensor hardtanh_scale(torch::Tensor x) {
    auto y = x;
    int n = x.numel();
    hardtanh_scale_kernel<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
""",
    functions=["hardtanh_scale"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.hardtanh_scale(x.contiguous())
