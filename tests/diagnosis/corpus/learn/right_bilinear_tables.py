# about = "A right answer: one kernel prepares places and weights, another uses them."
# section = "right"
# problem = "bilinear_resize"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void prepare(int* first, float* part, int in, int out) {
    int o = blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= out) return;
    float s = fmaxf(((float)in / out) * (o + 0.5f) - 0.5f, 0.f);
    int i = min((int)s, in - 1);
    first[o] = i;
    part[o] = fminf(s - i, 1.f);
}

__global__ void apply(const float* __restrict__ x, const int* __restrict__ fy, const float* __restrict__ py,
                      const int* __restrict__ fx, const float* __restrict__ px, float* __restrict__ y, int total, int h,
                      int w, int oh, int ow) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int ox = i % ow, oy = i / ow % oh;
    const float* p = x + (long)(i / (ow * oh)) * h * w;
    int a = fy[oy], b = min(a + 1, h - 1), l = fx[ox], r = min(l + 1, w - 1);
    float t = py[oy], s = px[ox];
    float left = p[a * w + l] * (1.f - t) + p[b * w + l] * t;
    float right = p[a * w + r] * (1.f - t) + p[b * w + r] * t;
    y[i] = left * (1.f - s) + right * s;
}

torch::Tensor resize(torch::Tensor x, int64_t oh, int64_t ow) {
    int h = x.size(2), w = x.size(3);
    auto ints = x.options().dtype(torch::kInt32);
    auto fy = torch::empty({oh}, ints), fx = torch::empty({ow}, ints);
    auto py = torch::empty({oh}, x.options()), px = torch::empty({ow}, x.options());
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    prepare<<<1, 64>>>(fy.data_ptr<int>(), py.data_ptr<float>(), h, oh);
    prepare<<<1, 64>>>(fx.data_ptr<int>(), px.data_ptr<float>(), w, ow);
    int total = y.numel();
    apply<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), fy.data_ptr<int>(), py.data_ptr<float>(),
                                        fx.data_ptr<int>(), px.data_ptr<float>(), y.data_ptr<float>(), total, h, w, oh,
                                        ow);
    return y;
}
"""

ext = load_inline(
    name="bilinear_tables",
    cpp_sources="torch::Tensor resize(torch::Tensor x, int64_t oh, int64_t ow);",
    cuda_sources=source,
    functions=["resize"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        assert max(size) <= 64
        self.size = size

    def forward(self, x):
        return ext.resize(x.contiguous(), self.size[0], self.size[1])
