# about = "Each thread writes the four outputs of one input, by the taps that fall on them."
# section = "right"
# problem = "convt2d_depthwise"

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

// Four phases: an output of even and odd row and column takes one, two, two or four taps, known in advance.
__global__ void phases(const float* x, const float* w, const float* b, float* y, int C, int H, int W) {
    int plane = blockIdx.x;
    const float* in = x + plane * H * W;
    const float* k = w + (plane % C) * 9;
    float* out = y + plane * 4 * H * W;
    float bias = b[plane % C];
    for (int i = threadIdx.x; i < H * W; i += blockDim.x) {
        int r = i / W, c = i % W;
        float a = in[i];
        float right = c + 1 < W ? in[i + 1] : 0.f;
        float below = r + 1 < H ? in[i + W] : 0.f;
        float far = r + 1 < H && c + 1 < W ? in[i + W + 1] : 0.f;
        float v[4] = {a * k[4], a * k[5] + right * k[3], a * k[7] + below * k[1],
                      a * k[8] + right * k[6] + below * k[2] + far * k[0]};
        for (int p = 0; p < 4; ++p) {
            float z = 4.f * (v[p] + bias);
            out[(2 * r + p / 2) * 2 * W + 2 * c + p % 2] = z < 0.f ? 0.f : z > 6.f ? 6.f : z;
        }
    }
}

torch::Tensor double_map(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    auto y = torch::empty({x.size(0), x.size(1), 2 * x.size(2), 2 * x.size(3)}, x.options());
    phases<<<x.size(0) * x.size(1), 64>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
        x.size(1), x.size(2), x.size(3));
    return y;
}
"""

DECLARATIONS = """
torch::Tensor double_map(torch::Tensor x, torch::Tensor w, torch::Tensor b);
"""

ext = load_inline(
    name="fused_double_map",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["double_map"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, channels, 3, stride=2, padding=1, output_padding=1, groups=channels)

    def forward(self, x):
        return ext.double_map(x.contiguous(), self.up.weight, self.up.bias)
