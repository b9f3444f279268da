# about = "The bias is left out."
# section = "mismatch"
# problem = "conv_strided"
# causes = ["bias-missing"]
# says = ["bias"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

conv_source = r"""
#include <torch/extension.h>

__global__ void conv2d_kernel(const float* x, const float* w, const float* b, float* y,
                              int Cin, int H, int W, int Cout, int OH, int OW,
                              int K, int stride, int padding, int dilation, int total) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= total) return;
    int ox = idx % OW;
    int oy = (idx / OW) % OH;
    int oc = (idx / (OW * OH)) % Cout;
    int n = idx / (OW * OH * Cout);

    float acc = 0.0f;
    for (int ic = 0; ic < Cin; ++ic) {
        for (int ky = 0; ky < K; ++ky) {
            for (int kx = 0; kx < K; ++kx) {
                int iy = oy * stride - padding + ky * dilation;
                int ix = ox * stride - padding + kx * dilation;
                if (iy >= 0 && iy < H && ix >= 0 && ix < W) {
                    acc += x[((n * Cin + ic) * H + iy) * W + ix] * w[((oc * Cin + ic) * K + ky) * K + kx];
                }
            }
        }
    }
    y[idx] = acc;
}

torch::Tensor conv2d_forward(torch::Tensor x, torch::Tensor w, torch::Tensor b, int stride, int padding, int dilation) {
    const int N = x.size(0), Cin = x.size(1), H = x.size(2), W = x.size(3);
    const int Cout = w.size(0), K = w.size(2);
    const int OH = (H + 2 * padding - dilation * (K - 1) - 1) / stride + 1;
    const int OW = (W + 2 * padding - dilation * (K - 1) - 1) / stride + 1;
    auto y = torch::zeros({N, Cout, OH, OW}, x.options());
    const int total = y.numel();
    const int threads = 256;
    conv2d_kernel<<<(total + threads - 1) / threads, threads>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
        Cin, H, W, Cout, OH, OW, K, stride, padding, dilation, total);
    return y;
}
"""

conv_cpp = "torch::Tensor conv2d_forward(torch::Tensor x, torch::Tensor w, torch::Tensor b, int stride, int padding, int dilation);"
conv = load_inline(name="conv_direct", cpp_sources=conv_cpp, cuda_sources=conv_source, functions=["conv2d_forward"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, stride=2, padding=2, dilation=2)

    def forward(self, x):
        return conv.conv2d_forward(x.contiguous(), self.conv.weight, self.conv.bias, 2, 2, 2)
