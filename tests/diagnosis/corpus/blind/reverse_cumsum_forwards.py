# about = "Runs from the beginning, not from the end."
# section = "mismatch"
# problem = "reverse_cumsum"
# causes = ["scan-reversed"]
# says = ["direction|revers|flip|forward|from the (start|begin|end)"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

rev_src = r"""
#include <torch/extension.h>

__global__ void reverse_cumsum_kernel(const float* x, float* y, int B, int L, int D) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= B * D) return;
    int b = t / D;
    int d = t % D;
    float running = 0.0f;
    for (int l = 0; l < L; ++l) {
        size_t at = ((size_t)b * L + l) * D + d;
        running += x[at];
        y[at] = running;
    }
}

torch::Tensor reverse_cumsum(torch::Tensor x) {
    x = x.contiguous();
    auto y = torch::empty_like(x);
    int B = x.size(0), L = x.size(1), D = x.size(2);
    int threads = 32;
    reverse_cumsum_kernel<<<(B * D + threads - 1) / threads, threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), B, L, D);
    return y;
}
"""

rev = load_inline(name="rev_cumsum", cpp_sources="torch::Tensor reverse_cumsum(torch::Tensor x);", cuda_sources=rev_src, functions=["reverse_cumsum"])


class ModelNew(nn.Module):
    def forward(self, x):
        return rev.reverse_cumsum(x)
