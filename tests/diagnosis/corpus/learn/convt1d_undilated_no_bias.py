# about = "The taps lie next to each other though the filter is dilated, and the bias is left out."
# section = "mismatch"
# problem = "convt1d_grouped"
# faults = [{causes = ["dilation-ignored"], says = ["dilat"]}, {causes = ["bias-missing"], says = ["bias"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void taps(const float* x, const float* w, float* y, int total, int ic, int oc, int len, int out_len, int groups) {
    int stride = gridDim.x * blockDim.x;
    int per_in = ic / groups, per_out = oc / groups;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += stride) {
        int p = i % out_len;
        int c = (i / out_len) % oc;
        int n = i / (out_len * oc);
        int g = c / per_out;
        float acc = 0.f;
        for (int l = 0; l < len; ++l) {
            int k = p + 3 - 2 * l;
            if (k < 0 || k >= 4) continue;
            for (int j = 0; j < per_in; ++j) {
                int ch = g * per_in + j;
                acc = fmaf(x[(n * ic + ch) * len + l], w[(ch * per_out + c % per_out) * 4 + k], acc);
            }
        }
        y[i] = acc;
    }
}

torch::Tensor taps_forward(torch::Tensor x, torch::Tensor w, int groups) {
    int oc = w.size(1) * groups, len = x.size(2), out_len = (len - 1) * 2 - 6 + 3 * 3 + 1;
    auto y = torch::empty({x.size(0), oc, out_len}, x.options());
    taps<<<8, 96>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), y.numel(), x.size(1), oc, len, out_len, groups);
    return y;
}
"""
ext = load_inline("taps", cpp_sources="torch::Tensor taps_forward(torch::Tensor x, torch::Tensor w, int groups);", cuda_sources=SRC, functions=["taps_forward"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups):
        super().__init__()
        self.groups = groups
        self.conv = nn.ConvTranspose1d(inner, outer, 4, stride=2, padding=3, dilation=3, groups=groups)

    def forward(self, x):
        return ext.taps_forward(x.contiguous(), self.conv.weight, self.groups)
