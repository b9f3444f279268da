# about = "The reduced dimension is not kept."
# section = "run"
# problem = "logsumexp_relu"
# causes = ["wrong-shape"]
# says = ["3, 6, 7", "3, 1, 6, 7"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

lse_src = r"""
#include <torch/extension.h>

// online logsumexp: the sum is rescaled whenever the maximum grows
__global__ void lse_relu_kernel(const float* x, float* y, int C, int S, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int n = i / S, s = i % S;
    float m = -INFINITY, sum = 0.f;
    for (int c = 0; c < C; ++c) {
        float v = x[(n * C + c) * S + s];
        float bigger = fmaxf(m, v);
        sum = sum * expf(m - bigger) + expf(v - bigger);
        m = bigger;
    }
    float r = logf(sum) + m - 3.0f;
    y[i] = r > 0.f ? r : 0.f;
}

torch::Tensor lse_relu(torch::Tensor x) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    auto y = torch::empty({N, H, W}, x.options());
    int total = N * H * W;
    lse_relu_kernel<<<(total + 31) / 32, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), C, H * W, total);
    return y;
}
"""

lse = load_inline(name="lse_relu_ext", cpp_sources="torch::Tensor lse_relu(torch::Tensor x);", cuda_sources=lse_src, functions=["lse_relu"])


class ModelNew(nn.Module):
    def forward(self, x):
        return lse.lse_relu(x.contiguous())
