# about = "The output has the width for its height and the height for its width."
# section = "mismatch"
# problem = "bilinear_resize"
# causes = ["wrong-shape", "coordinates-swapped"]
# says = ["2, 4, 19, 27|swap|exchang|transpos"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

up_source = """
#include <torch/extension.h>

__global__ void upsample_kernel(const float* x, float* y, int planes, int h, int w, int oh, int ow) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= planes * oh * ow) return;
    int ox = idx % ow;
    int oy = (idx / ow) % oh;
    int plane = idx / (oh * ow);

    float sy = fmaxf((oy + 0.5f) * h / oh - 0.5f, 0.0f);
    float sx = fmaxf((ox + 0.5f) * w / ow - 0.5f, 0.0f);
    int y0 = min((int)sy, h - 1);
    int x0 = min((int)sx, w - 1);
    int y1 = min(y0 + 1, h - 1);
    int x1 = min(x0 + 1, w - 1);
    float ly = sy - y0;
    float lx = sx - x0;

    const float* p = x + plane * h * w;
    y[idx] = (1 - ly) * ((1 - lx) * p[y0 * w + x0] + lx * p[y0 * w + x1])
           + ly * ((1 - lx) * p[y1 * w + x0] + lx * p[y1 * w + x1]);
}

torch::Tensor upsample(torch::Tensor x, int width, int height) {
    int planes = x.size(0) * x.size(1);
    auto y = torch::empty({x.size(0), x.size(1), height, width}, x.options());
    int total = planes * height * width;
    upsample_kernel<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), planes, x.size(2),
                                                  x.size(3), height, width);
    return y;
}
"""

upsample = load_inline(
    name="upsample",
    cpp_sources="torch::Tensor upsample(torch::Tensor x, int width, int height);",
    cuda_sources=up_source,
    functions=["upsample"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return upsample.upsample(x.contiguous(), self.size[0], self.size[1])
