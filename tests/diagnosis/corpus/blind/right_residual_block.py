# about = "Right in everything."
# section = "right"
# problem = "residual_block"

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

block_source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__global__ void norm_kernel(const float* x, const float* w, const float* b, float* y, float eps) {
    // width is exactly one warp
    const int lane = threadIdx.x;
    const float v = x[blockIdx.x * 32 + lane];
    float s = v;
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
    const float mean = s / 32.0f;
    const float d = v - mean;
    float q = d * d;
    for (int o = 16; o > 0; o >>= 1) q += __shfl_xor_sync(0xffffffff, q, o);
    y[blockIdx.x * 32 + lane] = d * rsqrtf(q / 32.0f + eps) * w[lane] + b[lane];
}

__global__ void silu_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / (1.0f + expf(-x[i]));
}

__global__ void add_kernel(const float* a, const float* b, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a[i] + b[i];
}

torch::Tensor norm32(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps) {
    TORCH_CHECK(x.size(1) == 32, "norm32 needs 32 features, got ", x.size(1));
    auto y = torch::empty_like(x);
    norm_kernel<<<x.size(0), 32, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), eps);
    return y;
}

torch::Tensor silu(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    silu_kernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}

torch::Tensor add(torch::Tensor a, torch::Tensor b) {
    auto y = torch::empty_like(a);
    int n = a.numel();
    add_kernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""

block_cpp = """
torch::Tensor norm32(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps);
torch::Tensor silu(torch::Tensor x);
torch::Tensor add(torch::Tensor a, torch::Tensor b);
"""

ops = load_inline(name="prenorm_block", cpp_sources=block_cpp, cuda_sources=block_source, functions=["norm32", "silu", "add"])


class ModelNew(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)

    def forward(self, x):
        x = x.contiguous()
        h = ops.norm32(x, self.norm.weight, self.norm.bias, self.norm.eps)
        h = ops.silu(F.linear(h, self.up.weight, self.up.bias))
        return ops.add(x, F.linear(h, self.down.weight, self.down.bias))
