# about = "A softmax of halves without its maximum: infinite from 89 on."
# category = "values"
# group = "numerics"
# problem = "half_softmax"
# status = ["incorrect", "runtime_error", "rejected"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="half_softmax",
    cpp_sources="torch::Tensor half_softmax(torch::Tensor x);",
    cuda_sources=r"""
#include <cuda_fp16.h>

__global__ void half_softmax_kernel(const __half* x, __half* y, int columns) {
    x += blockIdx.x * columns, y += blockIdx.x * columns;
    float sum = 0.f;
    for (int i = threadIdx.x; i < columns; i += 32) sum += expf(__half2float(x[i]));
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    for (int i = threadIdx.x; i < columns; i += 32) y[i] = __float2half(expf(__half2float(x[i])) / sum);
}

torch::Tensor half_softmax(torch::Tensor x) {
    auto y = torch::empty_like(x);
    half_softmax_kernel<<<x.size(0), 32>>>(reinterpret_cast<const __half*>(x.data_ptr<at::Half>()),
                                           reinterpret_cast<__half*>(y.data_ptr<at::Half>()), x.size(1));
    return y;
}
""",
    functions=["half_softmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.half_softmax(x.contiguous())
