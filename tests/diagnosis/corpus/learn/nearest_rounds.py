# about = "Rounds to the nearest centre, where the reference rounds the edge down."
# section = "mismatch"
# problem = "nearest_resize"
# causes = ["wrong-rounding", "wrong-coordinate", "interpolation-mode"]
# says = ["round|half|cent|exact|coordinate|floor"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

nearest_src = r"""
#include <torch/extension.h>

__global__ void nearest_kernel(const float* __restrict__ x, float* __restrict__ y, int planes, int h, int w, int oh,
                               int ow, float scale_h, float scale_w) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total = planes * oh * ow;
    if (idx >= total) return;
    int ox = idx % ow;
    int oy = (idx / ow) % oh;
    int p = idx / (ow * oh);
    int sy = min((int)((oy + 0.5f) * scale_h), h - 1);
    int sx = min((int)((ox + 0.5f) * scale_w), w - 1);
    y[idx] = x[(p * h + sy) * w + sx];
}

torch::Tensor nearest(torch::Tensor x, int64_t oh, int64_t ow) {
    int planes = x.size(0) * x.size(1), h = x.size(2), w = x.size(3);
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    int total = planes * oh * ow;
    nearest_kernel<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), planes, h, w, oh, ow,
                                                 (float)h / oh, (float)w / ow);
    return y;
}
"""

nearest_ext = load_inline(
    name="nearest_ext",
    cpp_sources="torch::Tensor nearest(torch::Tensor x, int64_t oh, int64_t ow);",
    cuda_sources=nearest_src,
    functions=["nearest"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return nearest_ext.nearest(x.contiguous(), self.size[0], self.size[1])
