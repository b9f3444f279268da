# about = "Right: input elements add into the output with atomics, in whatever order."
# section = "right"
# problem = "convt1d_grouped"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void begin(const float* bias, float* y, int total, int oc, int out_len) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) y[i] = bias[(i / out_len) % oc];
}

__global__ void scatter(const float* x, const float* w, float* y, int total, int ic, int per_in, int per_out, int len, int out_len) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int l = i % len, c = (i / len) % ic, n = i / (len * ic);
    int oc = ic / per_in * per_out, first = c / per_in * per_out;
    float v = x[i];
    for (int k = 3; k >= 0; --k) {
        int p = 2 * l - 3 + 3 * k;
        if (p < 0 || p >= out_len) continue;
        for (int o = 0; o < per_out; ++o)
            atomicAdd(y + (n * oc + first + o) * out_len + p, v * w[(c * per_out + o) * 4 + k]);
    }
}

torch::Tensor scattered(torch::Tensor x, torch::Tensor w, torch::Tensor b, int groups) {
    int ic = x.size(1), len = x.size(2), per_out = w.size(1), oc = per_out * groups;
    int out_len = 2 * (len - 1) - 6 + 9 + 1;
    auto y = torch::empty({x.size(0), oc, out_len}, x.options());
    begin<<<(y.numel() + 127) / 128, 128>>>(b.data_ptr<float>(), y.data_ptr<float>(), y.numel(), oc, out_len);
    scatter<<<(x.numel() + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), x.numel(), ic, ic / groups, per_out, len, out_len);
    return y;
}
"""
ext = load_inline("scattered", cpp_sources="torch::Tensor scattered(torch::Tensor x, torch::Tensor w, torch::Tensor b, int groups);", cuda_sources=SRC, functions=["scattered"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups):
        super().__init__()
        self.groups = groups
        self.conv = nn.ConvTranspose1d(inner, outer, 4, stride=2, padding=3, dilation=3, groups=groups)

    def forward(self, x):
        return ext.scattered(x.contiguous(), self.conv.weight, self.conv.bias, self.groups)
