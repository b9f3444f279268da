# about = "The highest value so far begins at zero."
# section = "mismatch"
# problem = "drawdown"
# causes = ["reduction-start-value", "pool-start-value", "wrong-initial-state"]
# says = ["start|begin|initial|zero|0"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#define THREADS 128

// block per row, tiles of THREADS values, the peak of earlier tiles carried in shared memory
__global__ void drawdown_kernel(const float* x, float* y, int n) {
    __shared__ float buf[THREADS];
    __shared__ float peak;
    const float* row = x + (long)blockIdx.x * n;
    float* dst = y + (long)blockIdx.x * n;
    int t = threadIdx.x;
    if (t == 0) peak = 0.0f;
    __syncthreads();
    for (int base = 0; base < n; base += THREADS) {
        int i = base + t;
        float v = i < n ? row[i] : -INFINITY;
        buf[t] = v;
        __syncthreads();
        for (int off = 1; off < THREADS; off <<= 1) {
            float other = t >= off ? buf[t - off] : -INFINITY;
            __syncthreads();
            buf[t] = fmaxf(buf[t], other);
            __syncthreads();
        }
        float high = fmaxf(buf[t], peak);
        if (i < n) dst[i] = high - v;
        __syncthreads();
        if (t == THREADS - 1) peak = high;
        __syncthreads();
    }
}

torch::Tensor drawdown(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.size(-1);
    drawdown_kernel<<<x.numel() / n, THREADS>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""

ext = load_inline("drawdown_ext", "torch::Tensor drawdown(torch::Tensor x);", source, functions=["drawdown"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.drawdown(x.contiguous())
