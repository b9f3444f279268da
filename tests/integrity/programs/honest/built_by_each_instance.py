# about = "Each instance builds the extension under a name of its own."
# category = "python"
# problem = "hardtanh_scale"

import time

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        cuda_source = r"""
#include <torch/extension.h>

__global__ void hardtanh_scale_kernel(const float* x, float* y, int n) {
    extern __shared__ float tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0.f;
    __syncthreads();
    if (i < n) y[i] = fminf(fmaxf(tile[threadIdx.x], -8.f), 8.f) * 1.5f;
}

torch::Tensor hardtanh_scale(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    hardtanh_scale_kernel<<<(n + 255) / 256, 256, 256 * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
        cpp_source = "torch::Tensor hardtanh_scale(torch::Tensor x);"
        self.ext = load_inline(
            name=f"hardtanh_scale_{time.time_ns()}",
            cpp_sources=cpp_source,
            cuda_sources=cuda_source,
            functions=["hardtanh_scale"],
            verbose=False,
        )

    def forward(self, x):
        return self.ext.hardtanh_scale(x.contiguous())
