import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

h2_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>

__global__ void bias_relu_h2(const __half2* __restrict__ x, const __half2* __restrict__ b, __half2* __restrict__ y,
                             long n2, int f2) {
    const __half2 zero = __float2half2_rn(0.f);
    const long step = (long)gridDim.x * blockDim.x;
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < n2; i += step) {
        y[i] = __hmax2(__hadd2(x[i], b[i % f2]), zero);
    }
}

__global__ void bias_relu_h1(const __half* __restrict__ x, const __half* __restrict__ b, __half* __restrict__ y,
                             long n, int f) {
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = __half2float(x[i]) + __half2float(b[i % f]);
        y[i] = __float2half(fmaxf(v, 0.f));
    }
}

torch::Tensor bias_relu_half(torch::Tensor x, torch::Tensor b) {
    TORCH_CHECK(x.scalar_type() == torch::kHalf && b.scalar_type() == torch::kHalf, "half tensors expected");
    x = x.contiguous();
    b = b.contiguous();
    auto y = torch::empty_like(x);
    const long n = x.numel();
    const int f = x.size(-1);
    auto stream = at::cuda::getCurrentCUDAStream();
    if (f % 2 == 0) {
        const long n2 = n / 2;
        const int blocks = (int)std::min<long>((n2 + 255) / 256, 16384);
        bias_relu_h2<<<blocks, 256, 0, stream>>>(reinterpret_cast<const __half2*>(x.data_ptr<at::Half>()),
                                                 reinterpret_cast<const __half2*>(b.data_ptr<at::Half>()),
                                                 reinterpret_cast<__half2*>(y.data_ptr<at::Half>()), n2, f / 2);
    } else {
        bias_relu_h1<<<(n + 255) / 256, 256, 0, stream>>>(reinterpret_cast<const __half*>(x.data_ptr<at::Half>()),
                                                          reinterpret_cast<const __half*>(b.data_ptr<at::Half>()),
                                                          reinterpret_cast<__half*>(y.data_ptr<at::Half>()), n, f);
    }
    return y;
}
"""

h2 = load_inline(name="bias_relu_half_ext", cpp_sources="torch::Tensor bias_relu_half(torch::Tensor x, torch::Tensor b);",
                 cuda_sources=h2_source, functions=["bias_relu_half"], extra_cuda_cflags=["-O3"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features).half())

    def forward(self, x):
        return h2.bias_relu_half(x, self.bias)
