# about = "Interpolates within the nearer layer alone: the step in depth is missing."
# section = "mismatch"
# problem = "trilinear_resize"
# causes = ["operator-missing", "interpolation-mode", "wrong-axis"]
# says = ["depth|dim|axis|layer|nearest|missing"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

struct Span {
    int a, b;
    float t;
};

__device__ Span span(int o, int in, int out) {
    float s = fmaxf((o + 0.5f) * (float(in) / out) - 0.5f, 0.f);
    int a = int(s);
    return Span{a, min(a + 1, in - 1), s - a};
}

__device__ float lerp2(const float* p, int w, const Span& v, const Span& u) {
    float top = p[v.a * w + u.a] + u.t * (p[v.a * w + u.b] - p[v.a * w + u.a]);
    float low = p[v.b * w + u.a] + u.t * (p[v.b * w + u.b] - p[v.b * w + u.a]);
    return top + v.t * (low - top);
}

__global__ void trilinear(const float* __restrict__ x, float* __restrict__ y, int total, int d, int h, int w, int od,
                          int oh, int ow) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int ox = i % ow, oy = i / ow % oh, oz = i / (ow * oh) % od, p = i / (ow * oh * od);
    Span u = span(ox, w, ow), v = span(oy, h, oh), q = span(oz, d, od);
    const float* volume = x + (size_t)p * d * h * w;
    y[i] = lerp2(volume + (q.t < 0.5f ? q.a : q.b) * h * w, w, v, u);
}

torch::Tensor resize3d(torch::Tensor x, int64_t od, int64_t oh, int64_t ow) {
    auto y = torch::empty({x.size(0), x.size(1), od, oh, ow}, x.options());
    int total = y.numel();
    trilinear<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), total, x.size(2), x.size(3),
                                            x.size(4), od, oh, ow);
    return y;
}
"""

ext = load_inline(
    name="resize3d",
    cpp_sources="torch::Tensor resize3d(torch::Tensor x, int64_t od, int64_t oh, int64_t ow);",
    cuda_sources=source,
    functions=["resize3d"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return ext.resize3d(x.contiguous(), *self.size)
