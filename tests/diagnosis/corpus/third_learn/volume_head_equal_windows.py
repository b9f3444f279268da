# about = "All windows of the grid are as large as the quotient rounded down; the reference's overlap and reach the end."
# section = "mismatch"
# problem = "volume_head"
# causes = ["wrong-rounding", "pool-window", "pool-divisor", "last-element-left-out"]
# says = ["window|round|ceil|floor|end|adaptive|border|overlap|bound"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__constant__ int PAD[3] = {1, 2, 0};
__constant__ int DIL[3] = {1, 2, 1};

__global__ void grouped_conv3d(const float* x, const float* w, const float* b, float* y, int ic, int oc, int D, int H, int W, int groups, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += blockDim.x * gridDim.x) {
        int r = i;
        int ow = r % (W - 1); r /= W - 1;
        int oh = r % H; r /= H;
        int od = r % D; r /= D;
        int o = r % oc;
        int n = r / oc;
        int per = ic / groups;
        int base = o / (oc / groups) * per;
        float acc = 0.f;
        const float* f = w + o * per * 18;
        for (int c = 0; c < per; ++c)
            for (int a = 0; a < 3; ++a)
                for (int e = 0; e < 3; ++e)
                    for (int q = 0; q < 2; ++q, ++f) {
                        int d = od + a * DIL[0] - PAD[0], h = oh + e * DIL[1] - PAD[1], v = ow + q * DIL[2] - PAD[2];
                        if (d >= 0 && d < D && h >= 0 && h < H && v >= 0 && v < W)
                            acc += *f * x[(((n * ic + base + c) * D + d) * H + h) * W + v];
                    }
        acc += b[o];
        y[i] = acc < -0.5f ? -0.5f : (acc > 1.f ? 1.f : acc);
    }
}

__global__ void grid_means(const float* x, float* y, int D, int H, int W, int gd, int gh, int gw, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int c = i % gw, b = i / gw % gh, a = i / (gw * gh) % gd, plane = i / (gw * gh * gd);
    int kd = D / gd, kh = H / gh, kw = W / gw;
    float s = 0.f;
    for (int d = a * D / gd; d < a * D / gd + kd; ++d)
        for (int h = b * H / gh; h < b * H / gh + kh; ++h)
            for (int w = c * W / gw; w < c * W / gw + kw; ++w)
                s += x[((plane * D + d) * H + h) * W + w];
    y[i] = s / (float)(kd * kh * kw);
}

torch::Tensor volume_means(torch::Tensor x, torch::Tensor w, torch::Tensor b, int64_t groups, int64_t gd, int64_t gh, int64_t gw) {
    int N = x.size(0), ic = x.size(1), D = x.size(2), H = x.size(3), W = x.size(4), oc = w.size(0);
    auto mid = torch::empty({N, oc, D, H, W - 1}, x.options());
    auto y = torch::empty({N, oc, gd, gh, gw}, x.options());
    grouped_conv3d<<<8, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), mid.data_ptr<float>(), ic, oc, D, H, W, groups, mid.numel());
    grid_means<<<(y.numel() + 63) / 64, 64>>>(mid.data_ptr<float>(), y.data_ptr<float>(), D, H, W - 1, gd, gh, gw, y.numel());
    return y;
}
"""

means = load_inline(
    name="volume_means",
    cpp_sources="torch::Tensor volume_means(torch::Tensor x, torch::Tensor w, torch::Tensor b, int64_t groups, int64_t gd, int64_t gh, int64_t gw);",
    cuda_sources=source,
    functions=["volume_means"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups, grid):
        super().__init__()
        self.conv = nn.Conv3d(inner, outer, (3, 3, 2), padding=(1, 2, 0), dilation=(1, 2, 1), groups=groups)
        self.groups = groups
        self.grid = grid

    def forward(self, x):
        gd, gh, gw = self.grid
        return means.volume_means(x.contiguous(), self.conv.weight, self.conv.bias, self.groups, gd, gh, gw)
