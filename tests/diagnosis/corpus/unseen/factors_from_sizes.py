# about = "Places are computed by the ratio of the sizes; the reference takes the factors themselves."
# section = "mismatch"
# problem = "bilinear_factors"
# causes = ["wrong-coordinate", "wrong-rounding", "wrong-coefficient"]
# says = ["scale|factor|ratio|coordinate|place|position|size"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cmath>

__device__ inline float source_index(int o, float scale) {
    float s = (o + 0.5f) * scale - 0.5f;
    return s < 0.f ? 0.f : s;
}

__global__ void upsample(const float* __restrict__ x, float* __restrict__ y, int n, int h, int w, int oh, int ow,
                         float sh, float sw) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n) return;
    int ox = id % ow;
    int oy = (id / ow) % oh;
    const float* plane = x + (size_t)(id / (ow * oh)) * h * w;
    float fy = source_index(oy, sh), fx = source_index(ox, sw);
    int y0 = min((int)fy, h - 1), x0 = min((int)fx, w - 1);
    int y1 = min(y0 + 1, h - 1), x1 = min(x0 + 1, w - 1);
    float ty = fminf(fy - y0, 1.f), tx = fminf(fx - x0, 1.f);
    float top = plane[y0 * w + x0] + tx * (plane[y0 * w + x1] - plane[y0 * w + x0]);
    float low = plane[y1 * w + x0] + tx * (plane[y1 * w + x1] - plane[y1 * w + x0]);
    y[id] = top + ty * (low - top);
}

torch::Tensor resize(torch::Tensor x, double tall, double wide) {
    int h = x.size(2), w = x.size(3);
    int oh = (int)std::floor(h * tall), ow = (int)std::floor(w * wide);
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    int n = y.numel();
    upsample<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, h, w, oh, ow, (float)h / oh,
                                       (float)w / ow);
    return y;
}
"""

resize_ext = load_inline(
    name="resize_ext",
    cpp_sources="torch::Tensor resize(torch::Tensor x, double tall, double wide);",
    cuda_sources=source,
    functions=["resize"],
)


class ModelNew(nn.Module):
    def __init__(self, tall, wide):
        super().__init__()
        self.tall, self.wide = tall, wide

    def forward(self, x):
        return resize_ext.resize(x.contiguous(), self.tall, self.wide)
