# about = "The deviation has the correction, and the 0.1 in the denominator is left out."
# section = "mismatch"
# problem = "std_two_dims"
# faults = [{causes = ["unbiased-variance"], says = ["unbiased|n - 1|n-1|bessel|correction"]}, {causes = ["eps-omitted", "operator-missing", "constant-added"], says = ["eps|0\\.1|constant|added|add"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

__global__ void row_std(const float* __restrict__ x, float* __restrict__ inv, int groups, int rows, int width) {
    __shared__ float buf[64];
    int b = blockIdx.x / rows, r = blockIdx.x % rows, t = threadIdx.x;
    int n = groups * width;
    float s = 0.f;
    for (int i = t; i < n; i += 64) s += x[((b * groups + i / width) * rows + r) * width + i % width];
    buf[t] = s;
    __syncthreads();
    for (int k = 32; k > 0; k >>= 1) { if (t < k) buf[t] += buf[t + k]; __syncthreads(); }
    float mean = buf[0] / n;
    __syncthreads();
    float q = 0.f;
    for (int i = t; i < n; i += 64) {
        float d = x[((b * groups + i / width) * rows + r) * width + i % width] - mean;
        q += d * d;
    }
    buf[t] = q;
    __syncthreads();
    for (int k = 32; k > 0; k >>= 1) { if (t < k) buf[t] += buf[t + k]; __syncthreads(); }
    if (t == 0) inv[blockIdx.x] = rsqrtf(buf[0] / (n - 1));
}

__global__ void scale(const float* x, const float* inv, float* y, int total, int groups, int rows, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int r = (i / width) % rows, b = i / (width * rows * groups);
    y[i] = x[i] * inv[b * rows + r];
}

torch::Tensor divide_by_std(torch::Tensor x) {
    int batch = x.size(0), groups = x.size(1), rows = x.size(2), width = x.size(3), total = x.numel();
    auto inv = torch::empty({batch, rows}, x.options());
    auto y = torch::empty_like(x);
    row_std<<<batch * rows, 64>>>(x.data_ptr<float>(), inv.data_ptr<float>(), groups, rows, width);
    scale<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), inv.data_ptr<float>(), y.data_ptr<float>(), total, groups, rows, width);
    return y;
}
"""
std_ext = load_inline(name="divide_by_std_ext", cpp_sources="torch::Tensor divide_by_std(torch::Tensor x);", cuda_sources=cuda_src, functions=["divide_by_std"])


class ModelNew(nn.Module):
    def forward(self, x):
        return std_ext.divide_by_std(x.contiguous())
