# about = "Every group reads the input channels of the first group."
# section = "mismatch"
# problem = "convt1d_grouped"
# causes = ["groups-ignored", "wrong-channel"]
# says = ["group|channel"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#define STRIDE 2
#define PAD 3
#define DIL 3
#define KS 4

__global__ void grouped_transpose(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b,
                                  float* __restrict__ y, int groups, int icg, int ocg, int len, int out_len) {
    extern __shared__ float rows[];          // icg rows of the input
    const int n = blockIdx.x / groups;
    const int g = blockIdx.x % groups;
    const float* src = x + (long)n * groups * icg * len;
    for (int i = threadIdx.x; i < icg * len; i += blockDim.x) rows[i] = src[i];
    __syncthreads();
    for (int j = threadIdx.x; j < ocg * out_len; j += blockDim.x) {
        int oc = j / out_len, p = j % out_len;
        float s = b[g * ocg + oc];
        for (int k = 0; k < KS; k++) {
            int q = p + PAD - k * DIL;
            if (q >= 0 && q % STRIDE == 0 && q / STRIDE < len) {
                for (int ic = 0; ic < icg; ic++)
                    s += rows[ic * len + q / STRIDE] * w[((g * icg + ic) * ocg + oc) * KS + k];
            }
        }
        y[((long)n * groups * ocg + g * ocg + oc) * out_len + p] = s;
    }
}

torch::Tensor grouped(torch::Tensor x, torch::Tensor w, torch::Tensor b, int groups) {
    int n = x.size(0), icg = x.size(1) / groups, ocg = w.size(1), len = x.size(2);
    int out_len = (len - 1) * STRIDE - 2 * PAD + DIL * (KS - 1) + 1;
    auto y = torch::empty({n, groups * ocg, out_len}, x.options());
    grouped_transpose<<<n * groups, 128, icg * len * sizeof(float)>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
                                                                      y.data_ptr<float>(), groups, icg, ocg, len, out_len);
    return y;
}
"""
cpp_source = "torch::Tensor grouped(torch::Tensor x, torch::Tensor w, torch::Tensor b, int groups);"
grouped_ext = load_inline(name="grouped_ext", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["grouped"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups):
        super().__init__()
        self.groups = groups
        self.conv = nn.ConvTranspose1d(inner, outer, 4, stride=2, padding=3, dilation=3, groups=groups)

    def forward(self, x):
        return grouped_ext.grouped(x.contiguous(), self.conv.weight.contiguous(), self.conv.bias, self.groups)
