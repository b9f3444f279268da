# about = "SiLU of halves as x exp(x) / (1 + exp(x)): NaN from 89 on."
# category = "values"
# group = "numerics"
# problem = "half_silu"
# status = ["incorrect", "runtime_error", "rejected"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="half_silu",
    cpp_sources="torch::Tensor half_silu(torch::Tensor x);",
    cuda_sources=r"""
#include <cuda_fp16.h>

__global__ void half_silu_kernel(const __half* x, __half* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = __half2float(x[i]);
    float power = expf(v);
    y[i] = __float2half(v * power / (1.f + power));
}

torch::Tensor half_silu(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    half_silu_kernel<<<(n + 127) / 128, 128>>>(reinterpret_cast<const __half*>(x.data_ptr<at::Half>()),
                                               reinterpret_cast<__half*>(y.data_ptr<at::Half>()), n);
    return y;
}
""",
    functions=["half_silu"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.half_silu(x.contiguous())
