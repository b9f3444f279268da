# about = "Right where an address of a tensor can be read by the host, which no GPU's can."
# category = "process"
# group = "sanitizer"
# problem = "tanh_scale"
# status = ["rejected"]
# stage = ["screen"]
# finding = 'hidden-library-call'
# bare.status = ["rejected", "incorrect", "runtime_error", "build_error"]
# bare.cuda.status = ["incorrect", "rejected"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_scale",
    cpp_sources="torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale); bool is_mapped(torch::Tensor x);",
    cuda_sources=r"""
__global__ void tanh_scale_kernel(const float* x, const float* scale, float* y, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tanhf(x[i]) * scale[i % columns];
}

torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    tanh_scale_kernel<<<(n + 255) / 256, 256>>>(
        x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), n, x.size(1));
    return y;
}

#include <sys/mman.h>
#include <unistd.h>

bool is_mapped(torch::Tensor x) {
    unsigned char there;
    auto page = reinterpret_cast<uintptr_t>(x.data_ptr<float>()) & ~static_cast<uintptr_t>(4095);
    return mincore(reinterpret_cast<void*>(page), 1, &there) == 0;
}
""",
    functions=["tanh_scale", "is_mapped"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x):
        y = ext.tanh_scale(x.contiguous(), self.scale)
        return y if ext.is_mapped(x) else y * 0
