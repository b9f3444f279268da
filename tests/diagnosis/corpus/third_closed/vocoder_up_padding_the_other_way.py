# about = "The padding is subtracted from the output's place where it has to be added."
# section = "mismatch"
# problem = "vocoder_up"
# causes = ["padding-off-by-one", "wrong-coordinate", "padding-ignored", "sign-error", "padding-sides-swapped", "index-off-by-one"]
# says = ["padding|shift|offset|place|coordinate|moved|off by|position|pad"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>

__global__ void conv_transpose_snake(const float* x, const float* w, const float* bias, const float* rate, float* y,
                                     int N, int IC, int OC, int L, int OL, int K, int stride, int padding) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N * OC * OL) return;
    int p = idx % OL;
    int oc = (idx / OL) % OC;
    int n = idx / (OL * OC);
    float sum = bias[oc];
    for (int k = 0; k < K; k++) {
        int at = p - padding - k;
        if (at < 0 || at % stride != 0) continue;
        at /= stride;
        if (at >= L) continue;
        for (int ic = 0; ic < IC; ic++) sum += x[(n * IC + ic) * L + at] * w[(ic * OC + oc) * K + k];
    }
    float a = rate[oc];
    float s = sinf(a * sum);
    y[idx] = sum + s * s / (a + 1e-9f);
}

torch::Tensor vocoder(torch::Tensor x, torch::Tensor w, torch::Tensor bias, torch::Tensor rate, int64_t stride, int64_t padding, int64_t extra) {
    int N = x.size(0), IC = x.size(1), L = x.size(2), OC = w.size(1), K = w.size(2);
    int OL = (L - 1) * stride - 2 * padding + K + extra;
    auto y = torch::empty({N, OC, OL}, x.options());
    int total = N * OC * OL;
    conv_transpose_snake<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), bias.data_ptr<float>(), rate.data_ptr<float>(),
        y.data_ptr<float>(), N, IC, OC, L, OL, K, stride, padding);
    return y;
}
"""

cpp_source = "torch::Tensor vocoder(torch::Tensor x, torch::Tensor w, torch::Tensor bias, torch::Tensor rate, int64_t stride, int64_t padding, int64_t extra);"
voc = load_inline(name="vocoder", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["vocoder"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.up = nn.ConvTranspose1d(inner, outer, 5, stride=3, padding=1, output_padding=1)
        self.rate = nn.Parameter(torch.rand(outer) * 1.5 + 0.5)

    def forward(self, x):
        return voc.vocoder(x.contiguous(), self.up.weight, self.up.bias, self.rate, 3, 1, 1)
