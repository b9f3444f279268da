# about = "A right answer."
# section = "right"
# problem = "conv_strided"

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="conv",
    cpp_sources="torch::Tensor conv(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void conv_kernel(const float* x, const float* w, const float* b, float* y, int n, int in, int height, int width,
                            int out, int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int ox = i % columns, oy = i / columns % rows, o = i / (columns * rows) % out, sample = i / (columns * rows * out);
    float sum = b[o];
    for (int c = 0; c < in; ++c)
        for (int ky = 0; ky < 3; ++ky)
            for (int kx = 0; kx < 3; ++kx) {
                int iy = oy * 2 - 2 + ky * 2, ix = ox * 2 - 2 + kx * 2;
                if (iy < 0 || iy >= height || ix < 0 || ix >= width) continue;
                sum += x[((long)(sample * in + c) * height + iy) * width + ix] * w[((o * in + c) * 3 + ky) * 3 + kx];
            }
    y[i] = sum;
}

torch::Tensor conv(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    int rows = (x.size(2) + 4 - 5) / 2 + 1, columns = (x.size(3) + 4 - 5) / 2 + 1;
    auto y = torch::empty({x.size(0), w.size(0), rows, columns}, x.options());
    int n = y.numel();
    conv_kernel<<<(n + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
        y.data_ptr<float>(), n, x.size(1), x.size(2), x.size(3), w.size(0), rows, columns);
    return y;
}
""",
    functions=["conv"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, stride=2, padding=2, dilation=2)

    def forward(self, x):
        return ext.conv(x.contiguous(), self.conv.weight, self.conv.bias)
