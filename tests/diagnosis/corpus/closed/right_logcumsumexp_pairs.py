# about = "A right answer: pairs of maximum and sum through warp shuffles."
# section = "right"
# problem = "logcumsumexp_rows"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

__device__ __forceinline__ float2 join(float2 a, float2 b) {
    if (a.y == 0.f) return b;
    if (b.y == 0.f) return a;
    if (a.x >= b.x) return make_float2(a.x, a.y + b.y * expf(b.x - a.x));
    return make_float2(b.x, b.y + a.y * expf(a.x - b.x));
}

__global__ void logcumsumexp_kernel(const float* __restrict__ x, float* __restrict__ y, int rows, int n) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const int lane = threadIdx.x;
    float2 carry = make_float2(0.f, 0.f);
    for (int base = 0; base < n; base += 32) {
        int i = base + lane;
        float2 p = i < n ? make_float2(x[(long)row * n + i], 1.f) : make_float2(0.f, 0.f);
        for (int d = 1; d < 32; d <<= 1) {
            float2 q;
            q.x = __shfl_up_sync(0xffffffff, p.x, d);
            q.y = __shfl_up_sync(0xffffffff, p.y, d);
            if (lane >= d) p = join(q, p);
        }
        p = join(carry, p);
        if (i < n) y[(long)row * n + i] = p.x + logf(p.y);
        carry.x = __shfl_sync(0xffffffff, p.x, 31);
        carry.y = __shfl_sync(0xffffffff, p.y, 31);
    }
}

torch::Tensor logcumsumexp_rows(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int rows = x.size(0), n = x.size(1);
    logcumsumexp_kernel<<<(rows + 1) / 2, dim3(32, 2)>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, n);
    return y;
}
"""

lcse = load_inline(
    name="logcumsumexp_pairs",
    cpp_sources="torch::Tensor logcumsumexp_rows(torch::Tensor x);",
    cuda_sources=cuda_src,
    functions=["logcumsumexp_rows"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return lcse.logcumsumexp_rows(x.contiguous())
