# about = "The padding of the rows is in the size and not in the index."
# section = "mismatch"
# problem = "convt2d_uneven"
# causes = ["padding-ignored", "padding-off-by-one"]
# says = ["pad|shift|offset|one row"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void fill_bias(const float* b, float* y, int total, int oc, int area) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) y[i] = b[i / area % oc];
}

// one thread per input element; spreads it over the output
__global__ void spread(const float* x, const float* w, float* y, int total, int ic, int oc, int h, int wd, int oh, int ow) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int col = i % wd, row = i / wd % h, c = i / (wd * h) % ic, n = i / (wd * h * ic);
    float v = x[i];
    for (int o = 0; o < oc; ++o)
        for (int a = 0; a < 3; ++a) {
            int r = row * 2 + a;
            if (r >= oh) continue;
            for (int b = 0; b < 4; ++b) {
                int s = col * 3 + b;
                if (s >= ow) continue;
                atomicAdd(&y[((n * oc + o) * oh + r) * ow + s], v * w[((c * oc + o) * 3 + a) * 4 + b]);
            }
        }
}

torch::Tensor spread_conv(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    int n = x.size(0), ic = x.size(1), h = x.size(2), wd = x.size(3), oc = w.size(1);
    int oh = (h - 1) * 2 - 2 * 1 + 3 + 1, ow = (wd - 1) * 3 + 4 + 2;
    auto y = torch::empty({n, oc, oh, ow}, x.options());
    fill_bias<<<(y.numel() + 255) / 256, 256>>>(b.data_ptr<float>(), y.data_ptr<float>(), y.numel(), oc, oh * ow);
    spread<<<(x.numel() + 63) / 64, 64>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), x.numel(), ic, oc, h, wd, oh, ow);
    return y;
}
"""
ext = load_inline("spread_conv", cpp_sources="torch::Tensor spread_conv(torch::Tensor x, torch::Tensor w, torch::Tensor b);", cuda_sources=SRC, functions=["spread_conv"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.ConvTranspose2d(inner, outer, (3, 4), stride=(2, 3), padding=(1, 0), output_padding=(1, 2))

    def forward(self, x):
        return ext.spread_conv(x.contiguous(), self.conv.weight, self.conv.bias)
