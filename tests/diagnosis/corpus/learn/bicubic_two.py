# about = "Places as with align_corners=True, and the four taps begin at the floor, one too far right and down."
# section = "mismatch"
# problem = "bicubic_resize"
# faults = [{causes = ["align-corners", "wrong-coordinate"], says = ["align|corner|half|cent|coordinate"]}, {causes = ["index-off-by-one", "wrong-coordinate"], says = ["off by one|shift|tap|one too|index|neighbo"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

code = r"""
#include <torch/extension.h>

__device__ __forceinline__ float w_near(float d) { return ((1.25f * d) - 2.25f) * d * d + 1.f; }
__device__ __forceinline__ float w_far(float d) { return ((-0.75f * d + 3.75f) * d - 6.f) * d + 3.f; }

__device__ __forceinline__ float blend(float a, float b, float c, float d, float t) {
    return w_far(t + 1.f) * a + w_near(t) * b + w_near(1.f - t) * c + w_far(2.f - t) * d;
}

__global__ void resize_cubic(const float* __restrict__ x, float* __restrict__ y, int n, int h, int w, int oh, int ow) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int ox = i % ow, oy = i / ow % oh;
    const float* img = x + (size_t)(i / (oh * ow)) * h * w;
    const float sy = oy * ((h - 1.f) / (oh - 1.f)), sx = ox * ((w - 1.f) / (ow - 1.f));
    const int by = (int)sy, bx = (int)sx;
    float rows[4];
    for (int k = 0; k < 4; ++k) {
        const float* line = img + min(max(by + k, 0), h - 1) * w;
        rows[k] = blend(line[min(bx, w - 1)], line[min(bx + 1, w - 1)], line[min(bx + 2, w - 1)],
                        line[min(bx + 3, w - 1)], sx - bx);
    }
    y[i] = blend(rows[0], rows[1], rows[2], rows[3], sy - by);
}

torch::Tensor resize_forward(torch::Tensor x, int64_t oh, int64_t ow) {
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    const int n = y.numel();
    resize_cubic<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, x.size(2), x.size(3), oh, ow);
    return y;
}
"""

resizer = load_inline(
    name="resize_cubic",
    cpp_sources="torch::Tensor resize_forward(torch::Tensor x, int64_t oh, int64_t ow);",
    cuda_sources=code,
    functions=["resize_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return resizer.resize_forward(x.contiguous(), self.size[0], self.size[1])
