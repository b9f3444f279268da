# about = "The loss without a branch, partial sums in pairs, the quotient by one thread in double."
# section = "right"
# problem = "pinball_weighted"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

// Two launches: partial sums of blocks, pairs of them in one array, then a single thread that adds them in order.
// The loss as q e + max(-e, 0) needs no branch.
__global__ void pinball_parts(const float* f, const float* y, const float* q, const float* w, float2* parts, int n, int levels) {
    int i = blockIdx.x * 32 + threadIdx.x;
    float2 mine = make_float2(0.f, 0.f);
    if (i < n) {
        for (int k = 0; k < levels; ++k) {
            float e = y[i] - f[i * levels + k];
            mine.x += fmaf(q[k], e, fmaxf(-e, 0.f));
        }
        mine.x *= w[i];
        mine.y = w[i];
    }
    for (int o = 16; o; o >>= 1) {
        mine.x += __shfl_down_sync(0xffffffffu, mine.x, o);
        mine.y += __shfl_down_sync(0xffffffffu, mine.y, o);
    }
    if (threadIdx.x == 0) parts[blockIdx.x] = mine;
}

__global__ void quotient(const float2* parts, float* out, int count) {
    double a = 0, b = 0;
    for (int i = 0; i < count; ++i) {
        a += parts[i].x;
        b += parts[i].y;
    }
    *out = (float)(a / b);
}

torch::Tensor pinball_two(torch::Tensor f, torch::Tensor y, torch::Tensor q, torch::Tensor w) {
    int n = f.size(0), blocks = (n + 31) / 32;
    auto parts = torch::empty({blocks, 2}, f.options());
    auto out = torch::empty({}, f.options());
    float2* p = reinterpret_cast<float2*>(parts.data_ptr<float>());
    pinball_parts<<<blocks, 32>>>(f.data_ptr<float>(), y.data_ptr<float>(), q.data_ptr<float>(), w.data_ptr<float>(), p, n, f.size(1));
    quotient<<<1, 1>>>(p, out.data_ptr<float>(), blocks);
    return out;
}
"""

ext = load_inline("pinball_two_module", ["torch::Tensor pinball_two(torch::Tensor f, torch::Tensor y, torch::Tensor q, torch::Tensor w);"], [SOURCE], functions=["pinball_two"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, forecast, target, quantiles, weight):
        return ext.pinball_two(forecast.contiguous(), target.contiguous(), quantiles.contiguous(), weight.contiguous())
