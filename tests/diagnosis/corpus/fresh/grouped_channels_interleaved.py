# about = "The input channels of a group are taken in strides, every other one, not as a block."
# section = "mismatch"
# problem = "conv1d_grouped_dilated"
# causes = ["wrong-channel", "groups-ignored", "layout-misread"]
# says = ["channel|group|layout|stride|interleav"]
# stage = ["verify"]

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

__global__ void grouped_conv_gelu(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                                  float* __restrict__ out, int C, int L, int per_group) {
    int l = threadIdx.x;
    int c = blockIdx.x;
    int n = blockIdx.y;
    if (l >= L) return;
    int first = c / per_group * per_group;
    float acc = bias[c];
    for (int i = 0; i < per_group; ++i) {
        const float* row = x + (n * C + i * (C / per_group) + c / per_group) * L;
        for (int k = 0; k < 3; ++k) {
            int pos = l + (k - 1) * 3;
            if (pos >= 0 && pos < L) acc += row[pos] * weight[(c * per_group + i) * 3 + k];
        }
    }
    float gelu = 0.5f * acc * (1.0f + erff(acc * 0.70710678f));
    out[(n * C + c) * L + l] = x[(n * C + c) * L + l] + gelu;
}

torch::Tensor grouped_conv(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    int N = x.size(0), C = x.size(1), L = x.size(2);
    TORCH_CHECK(L <= 1024);
    auto out = torch::empty_like(x);
    grouped_conv_gelu<<<dim3(C, N), (L + 31) / 32 * 32>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
        out.data_ptr<float>(), C, L, weight.size(1));
    return out;
}
"""

DECLARATIONS = """
torch::Tensor grouped_conv(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);
"""

ext = load_inline(
    name="fused_grouped_conv",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["grouped_conv"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 3, padding=3, dilation=3, groups=groups)

    def forward(self, x):
        return ext.grouped_conv(x.contiguous(), self.conv.weight, self.conv.bias)
