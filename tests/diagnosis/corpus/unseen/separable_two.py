# about = "The filters of the first stage read the channel of the remainder, not of the quotient, and the ReLU is left out."
# section = "mismatch"
# problem = "separable_conv"
# faults = [{causes = ["wrong-channel", "groups-ignored", "layout-misread"], says = ["channel|group"]}, {causes = ["activation-missing", "operator-missing"], says = ["relu|activation|missing|left out"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void depthwise_stage(const float* x, const float* w, const float* b, float* mid, int inner, int maps,
                                int h, int wd, int oh, int ow, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int col = i % ow, row = i / ow % oh, m = i / (ow * oh) % maps, batch = i / (ow * oh * maps);
    const float* plane = x + (batch * inner + m % inner) * h * wd;
    float acc = b[m];
    for (int dy = 0; dy < 3; dy++)
        for (int dx = 0; dx < 3; dx++) {
            int yy = row * 2 + dy - 1, xx = col + dx - 1;
            if (yy >= 0 && yy < h && xx >= 0 && xx < wd) acc += plane[yy * wd + xx] * w[m * 9 + dy * 3 + dx];
        }
    mid[i] = acc;
}

__global__ void pointwise_stage(const float* mid, const float* w, const float* b, float* y, int maps, int outer,
                                int area, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int p = i % area, o = i / area % outer, batch = i / (area * outer);
    float acc = b[o];
    for (int m = 0; m < maps; m++) acc += w[o * maps + m] * mid[(batch * maps + m) * area + p];
    y[i] = acc;
}

torch::Tensor separable(torch::Tensor x, torch::Tensor dw, torch::Tensor db, torch::Tensor pw, torch::Tensor pb) {
    int batch = x.size(0), inner = x.size(1), h = x.size(2), wd = x.size(3);
    int maps = dw.size(0), outer = pw.size(0);
    int oh = (h + 2 - 3) / 2 + 1, ow = wd;
    auto mid = torch::empty({batch, maps, oh, ow}, x.options());
    auto y = torch::empty({batch, outer, oh, ow}, x.options());
    int n1 = mid.numel(), n2 = y.numel();
    depthwise_stage<<<(n1 + 255) / 256, 256>>>(x.data_ptr<float>(), dw.data_ptr<float>(), db.data_ptr<float>(),
        mid.data_ptr<float>(), inner, maps, h, wd, oh, ow, n1);
    pointwise_stage<<<(n2 + 255) / 256, 256>>>(mid.data_ptr<float>(), pw.data_ptr<float>(), pb.data_ptr<float>(),
        y.data_ptr<float>(), maps, outer, oh * ow, n2);
    return y;
}
"""

separable = load_inline(
    name="separable",
    cpp_sources="torch::Tensor separable(torch::Tensor x, torch::Tensor dw, torch::Tensor db, torch::Tensor pw, torch::Tensor pb);",
    cuda_sources=source,
    functions=["separable"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.depth = nn.Conv2d(inner, 2 * inner, 3, stride=(2, 1), padding=1, groups=inner)
        self.mix = nn.Conv2d(2 * inner, outer, 1)

    def forward(self, x):
        return separable.separable(
            x.contiguous(), self.depth.weight, self.depth.bias, self.mix.weight, self.mix.bias
        )
