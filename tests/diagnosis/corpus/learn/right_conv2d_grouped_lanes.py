# about = "Right: a warp sums the taps of one output element, the bias is added last."
# section = "right"
# problem = "conv2d_grouped_tall"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void conv_lanes(const float* x, const float* w, const float* b, float* y, int total, int ic, int oc, int icg, int ocg,
                           int h, int wd, int oh, int ow) {
    int e = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    int lane = threadIdx.x & 31;
    if (e >= total) return;
    int c = e % ow, r = e / ow % oh, o = e / (ow * oh) % oc, n = e / (ow * oh * oc);
    int taps = icg * 15;
    float acc = 0.f;
    for (int t = taps - 1 - lane; t >= 0; t -= 32) {
        int i = t / 15, a = t / 3 % 5, k = t % 3;
        int row = 2 * r + a - 2, col = c + k - 1;
        if (row >= 0 && row < h && col >= 0 && col < wd)
            acc += __ldg(&x[((n * ic + o / ocg * icg + i) * h + row) * wd + col]) * w[o * taps + t];
    }
    for (int m = 1; m < 32; m <<= 1) acc += __shfl_xor_sync(0xffffffffu, acc, m);
    if (lane == 0) y[e] = acc + b[o];
}

torch::Tensor conv_by_warps(torch::Tensor x, torch::Tensor w, torch::Tensor b, int groups) {
    int ic = x.size(1), h = x.size(2), wd = x.size(3), oc = w.size(0), icg = w.size(1);
    int oh = (h - 1) / 2 + 1, ow = wd;
    auto y = torch::empty({x.size(0), oc, oh, ow}, x.options());
    int total = y.numel();
    conv_lanes<<<(total + 3) / 4, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), total,
                                         ic, oc, icg, oc / groups, h, wd, oh, ow);
    return y;
}
"""
ext = load_inline("conv_by_warps", cpp_sources="torch::Tensor conv_by_warps(torch::Tensor x, torch::Tensor w, torch::Tensor b, int groups);", cuda_sources=SRC, functions=["conv_by_warps"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups):
        super().__init__()
        self.groups = groups
        self.conv = nn.Conv2d(inner, outer, (5, 3), stride=(2, 1), padding=(2, 1), groups=groups)

    def forward(self, x):
        return ext.conv_by_warps(x.contiguous(), self.conv.weight, self.conv.bias, self.groups)
