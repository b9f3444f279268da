# about = "The average begins with zero, not with the first element."
# section = "mismatch"
# problem = "exponential_average"
# causes = ["wrong-initial-state", "reduction-start-value"]
# says = ["start|init|begin|first|zero"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ema_cuda = r"""
#include <torch/extension.h>

__global__ void ema_kernel(const float* __restrict__ x, float* __restrict__ y, float alpha, int batch, int steps) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    const float beta = 1.0f - alpha;
    float state = 0.0f;
    for (int t = 0; t < steps; ++t) {
        state = fmaf(alpha, x[b * steps + t], beta * state);
        y[b * steps + t] = state;
    }
}

torch::Tensor ema(torch::Tensor x, double alpha) {
    auto y = torch::empty_like(x);
    int batch = x.size(0), steps = x.size(1);
    ema_kernel<<<(batch + 31) / 32, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), (float)alpha, batch, steps);
    return y;
}
"""

ema_ext = load_inline(
    name="ema_ext",
    cpp_sources="torch::Tensor ema(torch::Tensor x, double alpha);",
    cuda_sources=ema_cuda,
    functions=["ema"],
)


class ModelNew(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        return ema_ext.ema(x.contiguous(), self.alpha)
