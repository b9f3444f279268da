# about = "Right: a scan over pairs of factor and offset by warp shuffles, with a carry from one 32 to the next."
# section = "right"
# problem = "ema_gate"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// h = a * h + b; two of these compose to another of these
__global__ void ema_scan(const float* __restrict__ x, const float* __restrict__ start, const float* __restrict__ logit,
                         const float* __restrict__ scale, float* __restrict__ y, float* __restrict__ last, int T, int C) {
    const int c = blockIdx.x, n = blockIdx.y, lane = threadIdx.x;
    const float keep = 1.f / (1.f + expf(-logit[c]));
    const float gain = scale[c];
    float carry = start[n * C + c];
    for (int base = 0; base < T; base += 32) {
        const int t = base + lane;
        const bool in = t < T;
        const float v = in ? x[((size_t)n * T + t) * C + c] : 0.f;
        float a = in ? keep : 1.f;
        float b = in ? (1.f - keep) * v : 0.f;
        #pragma unroll
        for (int o = 1; o < 32; o <<= 1) {
            const float pa = __shfl_up_sync(0xffffffffu, a, o);
            const float pb = __shfl_up_sync(0xffffffffu, b, o);
            if (lane >= o) {
                b = fmaf(a, pb, b);
                a *= pa;
            }
        }
        const float h = fmaf(a, carry, b);
        carry = __shfl_sync(0xffffffffu, h, 31);
        if (in) {
            const float d = v - h;
            y[((size_t)n * T + t) * C + c] = gain * d / (1.f + expf(-d));
        }
    }
    if (lane == 0) last[n * C + c] = carry;
}

std::vector<torch::Tensor> ema_scan_forward(torch::Tensor x, torch::Tensor start, torch::Tensor logit, torch::Tensor scale) {
    auto y = torch::empty_like(x);
    auto last = torch::empty_like(start);
    const int N = x.size(0), T = x.size(1), C = x.size(2);
    ema_scan<<<dim3(C, N), 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), start.data_ptr<float>(), logit.data_ptr<float>(), scale.data_ptr<float>(),
        y.data_ptr<float>(), last.data_ptr<float>(), T, C);
    return {y, last};
}
"""

op = load_inline(
    name="ema_scan_pairs",
    cpp_sources="std::vector<torch::Tensor> ema_scan_forward(torch::Tensor x, torch::Tensor start, torch::Tensor logit, torch::Tensor scale);",
    cuda_sources=SRC,
    functions=["ema_scan_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.logit = nn.Parameter(torch.linspace(-1.0, 2.0, channels))
        self.scale = nn.Parameter(torch.rand(channels) + 0.5)

    def forward(self, x, start):
        y, last = op.ema_scan_forward(x.contiguous(), start.contiguous(), self.logit, self.scale)
        return y, last
