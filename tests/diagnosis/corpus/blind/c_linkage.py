# about = "The host function is extern C."
# section = "binding"
# problem = "avg_pool"
# causes = ["extern-c"]
# says = ["extern"]
# stage = ["build"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_code = r"""
#include <torch/extension.h>

#define KERNEL 3
#define STRIDE 2
#define PAD 1

__global__ void avg_pool_kernel(const float* __restrict__ x, float* __restrict__ y, int H, int W, int OH, int OW) {
    const int ow = threadIdx.x;
    const int oh = blockIdx.x;
    const int plane = blockIdx.y;
    if (ow >= OW) return;
    const float* p = x + plane * H * W;
    float sum = 0.f;
    for (int i = 0; i < KERNEL; ++i) {
        const int h = oh * STRIDE + i - PAD;
        if (h < 0 || h >= H) continue;
        for (int j = 0; j < KERNEL; ++j) {
            const int w = ow * STRIDE + j - PAD;
            if (w < 0 || w >= W) continue;
            sum += p[h * W + w];
        }
    }
    y[(plane * OH + oh) * OW + ow] = sum / (KERNEL * KERNEL);
}

extern "C" at::Tensor avg_pool(at::Tensor x) {
    const auto N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    const auto OH = (H + 2 * PAD - KERNEL) / STRIDE + 1, OW = (W + 2 * PAD - KERNEL) / STRIDE + 1;
    auto y = at::empty({N, C, OH, OW}, x.options());
    dim3 grid(OH, N * C);
    avg_pool_kernel<<<grid, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), H, W, OH, OW);
    return y;
}
"""

avg = load_inline(name="avg_pool_inline", cpp_sources="at::Tensor avg_pool(at::Tensor x);", cuda_sources=cuda_code, functions=["avg_pool"])


class ModelNew(nn.Module):
    def forward(self, x):
        return avg.avg_pool(x.contiguous())
