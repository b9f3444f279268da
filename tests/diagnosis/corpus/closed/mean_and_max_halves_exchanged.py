# about = "The maxima come first and the means second."
# section = "mismatch"
# problem = "mean_and_max"
# causes = ["outputs-swapped", "operands-swapped"]
# says = ["swap|exchang|order|each other"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>

__global__ void mean_max_kernel(const float* __restrict__ x, float* __restrict__ y, int C, int area) {
    __shared__ float sums[64];
    __shared__ float tops[64];
    const int c = blockIdx.x, n = blockIdx.y, t = threadIdx.x;
    const float* plane = x + ((size_t)n * C + c) * area;
    float s = 0.f, m = -INFINITY;
    for (int i = t; i < area; i += 64) {
        const float v = plane[i];
        s += v;
        m = fmaxf(m, v);
    }
    sums[t] = s;
    tops[t] = m;
    __syncthreads();
    for (int half = 32; half > 0; half >>= 1) {
        if (t < half) {
            sums[t] += sums[t + half];
            tops[t] = fmaxf(tops[t], tops[t + half]);
        }
        __syncthreads();
    }
    if (t == 0) {
        y[(size_t)n * 2 * C + c] = tops[0];
        y[(size_t)n * 2 * C + C + c] = sums[0] / area;
    }
}

torch::Tensor mean_max(torch::Tensor x) {
    const int N = x.size(0), C = x.size(1), area = x.size(2) * x.size(3);
    auto y = torch::empty({N, 2 * C}, x.options());
    mean_max_kernel<<<dim3(C, N), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), C, area);
    return y;
}
"""

mean_max_ext = load_inline(
    name="mean_max_ext",
    cpp_sources="torch::Tensor mean_max(torch::Tensor x);",
    cuda_sources=cuda_source,
    functions=["mean_max"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return mean_max_ext.mean_max(x.contiguous())
