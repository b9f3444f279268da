# about = "The position is taken from the head's number, as if heads came after positions."
# section = "mismatch"
# problem = "rotary"
# causes = ["wrong-axis", "layout-misread", "index-ignored"]
# says = ["position|head|dim|axis|layout|row|ind"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

// grid (rows, heads, batch), one thread per pair
__global__ void apply_rotary(const float* in, const float* cs, const float* sn, float* out, int heads, int rows, int half) {
    const int b = blockIdx.z;
    const int h = blockIdx.y;
    const int r = blockIdx.x;
    const int t = threadIdx.x;
    if (t >= half) return;
    const long base = ((long)(b * heads + h) * rows + r) * 2 * half;
    const float lo = in[base + t];
    const float hi = in[base + half + t];
    const float c = __ldg(cs + h * half + t);
    const float s = __ldg(sn + h * half + t);
    out[base + t] = lo * c - hi * s;
    out[base + half + t] = hi * c + lo * s;
}

at::Tensor rotary(at::Tensor in, at::Tensor cs, at::Tensor sn) {
    at::Tensor out = at::empty_like(in);
    const int half = in.size(3) / 2;
    const dim3 grid(in.size(2), in.size(1), in.size(0));
    apply_rotary<<<grid, (half + 31) / 32 * 32>>>(in.data_ptr<float>(), cs.data_ptr<float>(), sn.data_ptr<float>(),
        out.data_ptr<float>(), in.size(1), in.size(2), half);
    return out;
}
"""

ext = load_inline("rotary_ext", cpp_sources="at::Tensor rotary(at::Tensor in, at::Tensor cs, at::Tensor sn);",
                  cuda_sources=source, functions=["rotary"])


class ModelNew(nn.Module):
    def __init__(self, length, head_size):
        super().__init__()
        half = head_size // 2
        frequency = 10000.0 ** (-2.0 * torch.arange(half) / head_size)
        angle = torch.arange(length).unsqueeze(1) * frequency.unsqueeze(0)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, x):
        return ext.rotary(x.contiguous(), self.cos, self.sin)
