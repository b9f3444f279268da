# about = "Every bin reads the whole row and adds up its shares in registers."
# section = "right"
# problem = "soft_histogram"

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

// A warp for each bin of a row: it reads the whole row and keeps what falls to its bin. Registers, no atomics.
__global__ void bin_per_warp(const float* x, float* hist, int n, int bins, float low, float per_unit) {
    int bin = blockIdx.x * blockDim.y + threadIdx.y;
    bool mine = bin < bins;
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) {
        float place = fmaf(x[blockIdx.y * n + i] - low, per_unit, -0.5f);
        place = place < 0.f ? 0.f : place > bins - 1 ? (float)(bins - 1) : place;
        sum += fmaxf(1.f - fabsf(place - (float)bin), 0.f);
    }
    #pragma unroll
    for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xffffffffu, sum, o);
    if (mine && threadIdx.x == 0) hist[blockIdx.y * bins + bin] = sum * (1.f / n);
}

torch::Tensor histogram_by_bins(torch::Tensor x, double low, double high, int64_t bins) {
    auto hist = torch::empty({x.size(0), bins}, x.options());
    bin_per_warp<<<dim3((bins + 3) / 4, x.size(0)), dim3(32, 4)>>>(x.data_ptr<float>(), hist.data_ptr<float>(), x.size(1), bins, low,
        (float)(bins / (high - low)));
    return hist;
}
"""

DECLARATIONS = """
torch::Tensor histogram_by_bins(torch::Tensor x, double low, double high, int64_t bins);
"""

ext = load_inline(
    name="fused_histogram_by_bins",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["histogram_by_bins"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self, low, high, bins):
        super().__init__()
        self.low, self.high, self.bins = low, high, bins

    def forward(self, x):
        return ext.histogram_by_bins(x.contiguous(), self.low, self.high, self.bins)
