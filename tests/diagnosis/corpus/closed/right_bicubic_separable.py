# about = "A right answer: columns of taps first, through scratch, then rows."
# section = "right"
# problem = "bicubic_resize"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

__device__ float4 cubic_weights(float t) {
    const float a = -0.75f;
    float u = t + 1.f, v = 1.f - t, q = 2.f - t;
    return make_float4(((a * u - 5.f * a) * u + 8.f * a) * u - 4.f * a, ((a + 2.f) * t - (a + 3.f)) * t * t + 1.f,
                       ((a + 2.f) * v - (a + 3.f)) * v * v + 1.f, ((a * q - 5.f * a) * q + 8.f * a) * q - 4.f * a);
}

__device__ float along(const float* line, int step, int n, int o, float ratio) {
    float s = ratio * (o + 0.5f) - 0.5f;
    int i = (int)floorf(s);
    float4 c = cubic_weights(s - i);
    auto at = [&](int k) { return line[(long)step * max(0, min(k, n - 1))]; };
    return c.x * at(i - 1) + c.y * at(i) + c.z * at(i + 1) + c.w * at(i + 2);
}

__global__ void vertical(const float* x, float* t, int total, int h, int w, int oh) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int c = i % w, o = i / w % oh, p = i / (w * oh);
    t[i] = along(x + (long)p * h * w + c, w, h, o, (float)h / oh);
}

__global__ void horizontal(const float* t, float* y, int total, int w, int ow) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) y[i] = along(t + (long)(i / ow) * w, 1, w, i % ow, (float)w / ow);
}

torch::Tensor bicubic(torch::Tensor x, int64_t oh, int64_t ow) {
    int h = x.size(2), w = x.size(3);
    auto t = torch::empty({x.size(0), x.size(1), oh, w}, x.options());
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    int a = t.numel(), b = y.numel();
    vertical<<<(a + 255) / 256, 256>>>(x.data_ptr<float>(), t.data_ptr<float>(), a, h, w, oh);
    horizontal<<<(b + 255) / 256, 256>>>(t.data_ptr<float>(), y.data_ptr<float>(), b, w, ow);
    return y;
}
"""

bicubic = load_inline(
    name="bicubic_separable",
    cpp_sources="torch::Tensor bicubic(torch::Tensor x, int64_t oh, int64_t ow);",
    cuda_sources=cuda_src,
    functions=["bicubic"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return bicubic.bicubic(x.contiguous(), self.size[0], self.size[1])
