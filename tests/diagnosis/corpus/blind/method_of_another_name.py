# about = "Calls a function the extension does not have."
# section = "binding"
# problem = "log_softmax"
# causes = ["missing-attribute"]
# says = ["log_softmax_forward"]
# stage = ["run", "verify"]
# line = "log_softmax_forward"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>
#include <math_constants.h>

__global__ void log_softmax_kernel(const float* x, float* y, int N, int C, int S) {
    // one thread per (n, spatial position), walking over the channels
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N * S) return;
    int n = idx / S;
    int s = idx % S;
    const float* base = x + n * C * S + s;
    float mx = -CUDART_INF_F;
    for (int c = 0; c < C; ++c) mx = fmaxf(mx, base[c * S]);
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) sum += expf(base[c * S] - mx);
    float lse = mx + logf(sum);
    for (int c = 0; c < C; ++c) y[n * C * S + c * S + s] = base[c * S] - lse;
}

torch::Tensor log_softmax_channels(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int N = x.size(0), C = x.size(1);
    int S = x.numel() / (N * C);
    int total = N * S;
    log_softmax_kernel<<<(total + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), N, C, S);
    return y;
}
"""

mod = load_inline(
    name="log_softmax_channels",
    cpp_sources="torch::Tensor log_softmax_channels(torch::Tensor x);",
    cuda_sources=src,
    functions=["log_softmax_channels"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return mod.log_softmax_forward(x.contiguous())
