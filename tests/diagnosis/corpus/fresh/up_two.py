# about = "The padding of one is taken for none, and the bias is added after the factor."
# section = "mismatch"
# problem = "convt2d_depthwise"
# faults = [{causes = ["padding-ignored", "padding-off-by-one"], says = ["pad|shift|off by one"]}, {causes = ["activation-order", "weight-wrong-place", "scale-missing", "bias-wrong-index", "residual-wrong-place"], says = ["order|after|before|scale|bias|factor|place"]}]
# stage = ["verify"]

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

__global__ void up_kernel(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
                          float* __restrict__ y, int N, int C, int H, int W) {
    const int OH = 2 * H, OW = 2 * W;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * C * OH * OW) return;
    int ox = i % OW, oy = i / OW % OH, c = i / (OW * OH) % C, n = i / (OW * OH * C);
    float acc = 0.f;
    for (int ky = 0; ky < 3; ++ky) {
        int ny = oy - ky;
        if (ny < 0 || ny % 2 != 0 || ny / 2 >= H) continue;
        for (int kx = 0; kx < 3; ++kx) {
            int nx = ox - kx;
            if (nx < 0 || nx % 2 != 0 || nx / 2 >= W) continue;
            acc += x[((n * C + c) * H + ny / 2) * W + nx / 2] * w[c * 9 + ky * 3 + kx];
        }
    }
    y[i] = fminf(fmaxf(acc * 4.f + bias[c], 0.f), 6.f);
}

torch::Tensor up_relu6(torch::Tensor x, torch::Tensor w, torch::Tensor bias) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    auto y = torch::empty({N, C, 2 * H, 2 * W}, x.options());
    int total = y.numel();
    up_kernel<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), N, C, H, W);
    return y;
}
"""

DECLARATIONS = """
torch::Tensor up_relu6(torch::Tensor x, torch::Tensor w, torch::Tensor bias);
"""

ext = load_inline(
    name="fused_up_relu6",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["up_relu6"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, channels, 3, stride=2, padding=1, output_padding=1, groups=channels)

    def forward(self, x):
        return ext.up_relu6(x.contiguous(), self.up.weight, self.up.bias)
