# about = "Left and right neighbour have each other's weight."
# section = "mismatch"
# problem = "bilinear_corners"
# causes = ["weights-swapped"]
# says = ["weight|swap|exchang|fraction|1 - "]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

lerp_cuda = r"""
#include <torch/extension.h>

__device__ float mix(float a, float b, float t) { return fmaf(t, a, fmaf(-t, b, b)); }

__global__ void horizontal(const float* __restrict__ x, float* __restrict__ t, int rows, int w, int ow) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * ow) return;
    int row = i / ow, o = i % ow;
    float f = o * ((float)(w - 1) / (ow - 1));
    int left = min((int)f, w - 1), right = min(left + 1, w - 1);
    t[i] = mix(x[row * w + left], x[row * w + right], f - left);
}

__global__ void vertical(const float* __restrict__ t, float* __restrict__ y, int planes, int h, int oh, int ow) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= planes * oh * ow) return;
    int c = i % ow, o = i / ow % oh, p = i / (ow * oh);
    float f = o * ((float)(h - 1) / (oh - 1));
    int above = min((int)f, h - 1), below = min(above + 1, h - 1);
    float part = f - above;
    y[i] = t[(p * h + above) * ow + c] * (1.f - part) + t[(p * h + below) * ow + c] * part;
}

torch::Tensor enlarge(torch::Tensor x, int64_t oh, int64_t ow) {
    int planes = x.size(0) * x.size(1), h = x.size(2), w = x.size(3);
    auto t = torch::empty({planes, h, ow}, x.options());
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    int a = planes * h * ow, b = planes * oh * ow;
    horizontal<<<(a + 127) / 128, 128>>>(x.data_ptr<float>(), t.data_ptr<float>(), planes * h, w, ow);
    vertical<<<(b + 127) / 128, 128>>>(t.data_ptr<float>(), y.data_ptr<float>(), planes, h, oh, ow);
    return y;
}
"""

lerp_ext = load_inline(
    name="lerp_ext",
    cpp_sources="torch::Tensor enlarge(torch::Tensor x, int64_t oh, int64_t ow);",
    cuda_sources=lerp_cuda,
    functions=["enlarge"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return lerp_ext.enlarge(x.contiguous(), self.size[0], self.size[1])
