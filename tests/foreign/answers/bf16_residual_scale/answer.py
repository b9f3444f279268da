import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>

// out = x + gate * y, one fused multiply-add in bfloat162
__global__ void residual_gate(const __nv_bfloat162* __restrict__ x, const __nv_bfloat162* __restrict__ y,
                              const __nv_bfloat162* __restrict__ g, __nv_bfloat162* __restrict__ o, int d2) {
    const size_t row = (size_t)blockIdx.x * d2;
    for (int i = threadIdx.x; i < d2; i += blockDim.x) o[row + i] = __hfma2(g[i], y[row + i], x[row + i]);
}

__global__ void residual_gate_odd(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ y,
                                  const __nv_bfloat16* __restrict__ g, __nv_bfloat16* __restrict__ o, int d) {
    const size_t row = (size_t)blockIdx.x * d;
    for (int i = threadIdx.x; i < d; i += blockDim.x)
        o[row + i] = __float2bfloat16(fmaf(__bfloat162float(g[i]), __bfloat162float(y[row + i]), __bfloat162float(x[row + i])));
}

torch::Tensor residual_gate_bf16(torch::Tensor x, torch::Tensor y, torch::Tensor g) {
    TORCH_CHECK(x.scalar_type() == torch::kBFloat16, "bfloat16 only");
    x = x.contiguous(); y = y.contiguous(); g = g.contiguous();
    auto o = torch::empty_like(x);
    int d = g.numel();
    int rows = x.numel() / d;
    auto s = at::cuda::getCurrentCUDAStream();
    void* xp = x.data_ptr(); void* yp = y.data_ptr(); void* gp = g.data_ptr(); void* op = o.data_ptr();
    if (d % 2 == 0)
        residual_gate<<<rows, 256, 0, s>>>((const __nv_bfloat162*)xp, (const __nv_bfloat162*)yp, (const __nv_bfloat162*)gp,
                                           (__nv_bfloat162*)op, d / 2);
    else
        residual_gate_odd<<<rows, 256, 0, s>>>((const __nv_bfloat16*)xp, (const __nv_bfloat16*)yp, (const __nv_bfloat16*)gp,
                                               (__nv_bfloat16*)op, d);
    return o;
}
"""

ops = load_inline(
    name="residual_gate_ops",
    cpp_sources="torch::Tensor residual_gate_bf16(torch::Tensor x, torch::Tensor y, torch::Tensor g);",
    cuda_sources=src,
    functions=["residual_gate_bf16"],
)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.gate = nn.Parameter(torch.full((dim,), 0.5, dtype=torch.bfloat16))

    def forward(self, x, y):
        return ops.residual_gate_bf16(x, y, self.gate)
