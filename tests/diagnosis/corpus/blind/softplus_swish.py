# about = "Swish where the reference has Mish."
# section = "mismatch"
# problem = "softplus_tanh"
# causes = ["wrong-activation"]
# says = ["silu|swish|sigmoid|mish|tanh|softplus|activation"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

template <typename scalar_t>
__global__ void mish_elu_kernel(const scalar_t* in, scalar_t* out, const int64_t n, const float alpha) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float x = in[i];
    const float sp = x > 20.0f ? x : log1pf(expf(x));
    const float mish = x / (1.0f + expf(-x));
    const float elu = x > 0.0f ? x : alpha * expm1f(x);
    out[i] = mish + elu;
}

torch::Tensor mish_elu(torch::Tensor x, double alpha) {
    auto out = torch::empty_like(x);
    const int64_t n = x.numel();
    const int threads = 256;
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "mish_elu", ([&] {
        mish_elu_kernel<scalar_t><<<(n + threads - 1) / threads, threads>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), n, alpha);
    }));
    return out;
}
"""

mish = load_inline(
    name="mish_elu_ext",
    cpp_sources="torch::Tensor mish_elu(torch::Tensor x, double alpha);",
    cuda_sources=source,
    functions=["mish_elu"],
)


class ModelNew(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        return mish.mish_elu(x.contiguous(), self.alpha)
