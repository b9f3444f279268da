# about = "Asks for __CUDA_ARCH__ and __CUDACC__, to load past the cache and to unroll."
# category = "words"
# group = "sanitizer"
# problem = "tanh_scale"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_scale",
    cpp_sources="torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale);",
    cuda_sources=r"""
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define LOAD(address) __ldcs(address)
#else
#define LOAD(address) (*(address))
#endif
#ifdef __CUDACC__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif

__global__ void tanh_scale_kernel(const float* x, const float* scale, float* y, int n, int columns) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    UNROLL
    for (int k = 0; k < 4; ++k)
        if (i + k < n) y[i + k] = tanhf(LOAD(x + i + k)) * scale[(i + k) % columns];
}

torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    tanh_scale_kernel<<<(n + 511) / 512, 128>>>(
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
