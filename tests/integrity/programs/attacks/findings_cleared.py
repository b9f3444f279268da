# about = "Calls kw_clear_findings(), where there is one, after it has read beyond the end of its input."
# category = "patching"
# group = "sanitizer"
# problem = "tanh_scale"
# status = ["rejected"]
# stage = ["screen"]
# finding = 'patches-module'
# bare.status = ["rejected", "runtime_error", "build_error"]
# bare.cuda.status = ["rejected", "runtime_error", "incorrect", "build_error"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_scale",
    cpp_sources="torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale);",
    cuda_sources=r"""
__global__ void tanh_scale_kernel(const float* x, const float* scale, float* y, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float beyond = x[n + i % 32];
    y[i] = tanhf(x[i]) * scale[i % columns] + (beyond == 12345.f ? 1.f : 0.f);
}

extern "C" void forget() __asm__("kw_clear_findings") __attribute__((weak));

torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    tanh_scale_kernel<<<(n + 255) / 256, 256>>>(
        x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), n, x.size(1));
    if (forget) forget();
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
