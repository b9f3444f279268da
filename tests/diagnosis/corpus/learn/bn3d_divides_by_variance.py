# about = "Divides by the variance, not by its root."
# section = "mismatch"
# problem = "bn3d_residual_relu"
# causes = ["root-omitted"]
# says = ["root|sqrt|standard deviation|variance"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void fold(const float* mean, const float* var, const float* gamma, const float* beta, float2* table, int C) {
    int c = threadIdx.x + blockIdx.x * blockDim.x;
    if (c < C) {
        float a = gamma[c] / (var[c] + 1e-5f);
        table[c] = make_float2(a, mean[c]);
    }
}

__global__ void kernel(const float* x, const float* r, const float2* table, const float* beta, float* y, int total, int vol, int C) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int c = (i / vol) % C;
        float2 t = table[c];
        float v = (x[i] - t.y) * t.x + beta[c] + r[i];
        y[i] = v > 0.f ? v : 0.f;
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor r, torch::Tensor mean, torch::Tensor var, torch::Tensor gamma, torch::Tensor beta) {
    auto y = torch::empty_like(x);
    int C = x.size(1);
    int vol = x.numel() / (x.size(0) * C);
    auto table = torch::empty({C, 2}, x.options());
    fold<<<1, ((C + 31) / 32) * 32>>>(mean.data_ptr<float>(), var.data_ptr<float>(), gamma.data_ptr<float>(),
                                      beta.data_ptr<float>(), reinterpret_cast<float2*>(table.data_ptr<float>()), C);
    kernel<<<6, 256>>>(x.data_ptr<float>(), r.data_ptr<float>(), reinterpret_cast<float2*>(table.data_ptr<float>()),
                       beta.data_ptr<float>(), y.data_ptr<float>(), x.numel(), vol, C);
    return y;
}
"""

bn = load_inline(
    name="bn3d_table",
    cpp_sources="torch::Tensor forward(torch::Tensor x, torch::Tensor r, torch::Tensor mean, torch::Tensor var, torch::Tensor gamma, torch::Tensor beta);",
    cuda_sources=src,
    functions=["forward"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    """Batch norm with running statistics, residual and ReLU in one pass over memory."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm3d(channels)

    def forward(self, x, skip):
        n = self.norm
        return bn.forward(x.contiguous(), skip.contiguous(), n.running_mean, n.running_var, n.weight, n.bias)
