# about = "The taps lie side by side; the dilation of two is in the size alone."
# section = "mismatch"
# problem = "convt2d_dilated"
# causes = ["dilation-ignored"]
# says = ["dilat|tap|spacing"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

convt_source = r"""
#include <torch/extension.h>

struct Geometry { int inner, outer, groups, ih, iw, oh, ow, window, stride, padding; };

__global__ void conv_transpose_kernel(const float* __restrict__ x, const float* __restrict__ weight,
                                      const float* __restrict__ bias, float* __restrict__ y, Geometry g, int n) {
    const int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n) return;
    const int ox = id % g.ow, oy = id / g.ow % g.oh, o = id / (g.ow * g.oh) % g.outer;
    const int b = id / (g.ow * g.oh * g.outer);
    const int in_group = g.inner / g.groups, out_group = g.outer / g.groups;
    const int group = o / out_group;
    float acc = bias[o];
    for (int ky = 0; ky < g.window; ++ky) {
        const int ty = oy + g.padding - ky;
        if (ty < 0 || ty % g.stride) continue;
        const int iy = ty / g.stride;
        if (iy >= g.ih) continue;
        for (int kx = 0; kx < g.window; ++kx) {
            const int tx = ox + g.padding - kx;
            if (tx < 0 || tx % g.stride) continue;
            const int ix = tx / g.stride;
            if (ix >= g.iw) continue;
            for (int c = group * in_group; c < (group + 1) * in_group; ++c)
                acc += x[((b * g.inner + c) * g.ih + iy) * g.iw + ix] *
                       weight[((c * out_group + o % out_group) * g.window + ky) * g.window + kx];
        }
    }
    y[id] = acc;
}

torch::Tensor conv_transpose(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t stride,
                             int64_t padding, int64_t extra, int64_t groups, int64_t dilation) {
    Geometry g;
    g.inner = x.size(1); g.groups = groups; g.outer = weight.size(1) * groups; g.window = weight.size(2);
    g.ih = x.size(2); g.iw = x.size(3); g.stride = stride; g.padding = padding;
    g.oh = (g.ih - 1) * stride - 2 * padding + dilation * (g.window - 1) + extra + 1;
    g.ow = (g.iw - 1) * stride - 2 * padding + dilation * (g.window - 1) + extra + 1;
    auto y = torch::empty({x.size(0), g.outer, g.oh, g.ow}, x.options());
    const int n = y.numel();
    conv_transpose_kernel<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), weight.data_ptr<float>(),
                                                    bias.data_ptr<float>(), y.data_ptr<float>(), g, n);
    return y;
}
"""

convt = load_inline(
    name="convt_ext",
    cpp_sources="torch::Tensor conv_transpose(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t stride, int64_t padding, int64_t extra, int64_t groups, int64_t dilation);",
    cuda_sources=convt_source,
    functions=["conv_transpose"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups):
        super().__init__()
        self.groups = groups
        self.conv = nn.ConvTranspose2d(
            inner, outer, 3, stride=2, padding=1, output_padding=1, groups=groups, dilation=2
        )

    def forward(self, x):
        return convt.conv_transpose(x.contiguous(), self.conv.weight, self.conv.bias, 2, 1, 1, self.groups, 2)
