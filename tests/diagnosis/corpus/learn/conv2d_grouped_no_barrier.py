# about = "The filter in shared memory is used before all threads have loaded their part."
# section = "run"
# problem = "conv2d_grouped_tall"
# causes = ["shared-race", "shared-uninitialised-read"]
# says = ["shared|barrier|sync"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
constexpr int KH = 5, KW = 3;

__global__ void conv_group(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
                           float* __restrict__ y, int ic, int oc, int icg, int ocg, int h, int wd, int oh, int ow) {
    extern __shared__ float wsm[];
    const int o = blockIdx.x;
    const int n = blockIdx.y;
    const int taps = icg * KH * KW;
    for (int t = threadIdx.x; t < taps; t += blockDim.x) wsm[t] = w[o * taps + t];

    const float* base = x + (n * ic + (o / ocg) * icg) * h * wd;
    for (int p = threadIdx.x; p < oh * ow; p += blockDim.x) {
        int r = p / ow, c = p % ow;
        float v = bias[o];
        for (int i = 0; i < icg; ++i) {
            for (int a = 0; a < KH; ++a) {
                int row = 2 * r + a - 2;
                if (row < 0 || row >= h) continue;
                for (int b = 0; b < KW; ++b) {
                    int col = c + b - 1;
                    if (col < 0 || col >= wd) continue;
                    v = fmaf(base[(i * h + row) * wd + col], wsm[(i * KH + a) * KW + b], v);
                }
            }
        }
        y[(n * oc + o) * oh * ow + p] = v;
    }
}

torch::Tensor conv_forward(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int groups) {
    int n = x.size(0), ic = x.size(1), h = x.size(2), wd = x.size(3), oc = w.size(0), icg = w.size(1);
    int oh = (h + 4 - KH) / 2 + 1, ow = wd + 2 - KW + 1;
    auto y = torch::empty({n, oc, oh, ow}, x.options());
    size_t bytes = icg * KH * KW * sizeof(float);
    conv_group<<<dim3(oc, n), 64, bytes>>>(x.data_ptr<float>(), w.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(),
                                           ic, oc, icg, oc / groups, h, wd, oh, ow);
    return y;
}
"""
conv = load_inline(name="conv_group", cpp_sources="torch::Tensor conv_forward(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int groups);", cuda_sources=source, functions=["conv_forward"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups):
        super().__init__()
        self.groups = groups
        self.conv = nn.Conv2d(inner, outer, (5, 3), stride=(2, 1), padding=(2, 1), groups=groups)

    def forward(self, x):
        return conv.conv_forward(x.contiguous(), self.conv.weight, self.conv.bias, self.groups)
