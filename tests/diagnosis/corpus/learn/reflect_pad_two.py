# about = "Left and right amounts are exchanged, and above and below the edge is repeated, not reflected."
# section = "mismatch"
# problem = "reflect_pad"
# faults = [{causes = ["padding-sides-swapped", "padding-off-by-one"], says = ["left|right|side|swap|exchang|amount|off"]}, {causes = ["padding-mode"], says = ["replicat|repeat|reflect|clamp|edge|border|mode"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
#define PAD_A 3
#define PAD_B 1
#define PAD_TOP 2
#define PAD_BOTTOM 4

__global__ void pad2d(const float* __restrict__ x, float* __restrict__ y, const int h, const int w) {
    const int ow = w + PAD_A + PAD_B;
    const int oh = h + PAD_TOP + PAD_BOTTOM;
    const int plane = blockIdx.y;
    const int r = blockIdx.x;
    const int from = min(max(r - PAD_TOP, 0), h - 1);
    const float* row = x + ((size_t)plane * h + from) * w;
    float* out = y + ((size_t)plane * oh + r) * ow;
    for (int c = threadIdx.x; c < ow; c += blockDim.x) {
        int k = abs(c - PAD_B);
        if (k >= w) k = 2 * (w - 1) - k;
        out[c] = row[k];
    }
}

torch::Tensor pad(torch::Tensor x) {
    const int h = x.size(2), w = x.size(3);
    auto y = torch::empty({x.size(0), x.size(1), h + PAD_TOP + PAD_BOTTOM, w + PAD_A + PAD_B}, x.options());
    pad2d<<<dim3(h + PAD_TOP + PAD_BOTTOM, x.size(0) * x.size(1)), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), h,
                                                                        w);
    return y;
}
"""

padding = load_inline(
    name="pad2d",
    cpp_sources="torch::Tensor pad(torch::Tensor x);",
    cuda_sources=source,
    functions=["pad"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return padding.pad(x.contiguous())
