# about = "The activation adds the sine and not its square."
# section = "mismatch"
# problem = "vocoder_up"
# causes = ["wrong-activation", "square-omitted", "operator-missing", "activation-missing"]
# says = ["sin|square|snake|activation|operator|power"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

template <int K, int STRIDE, int PAD>
__global__ void up_kernel(const float* x, const float* w, const float* b, float* y, int ic, int oc, int len, int out_len, int total) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const int p = i % out_len + PAD, c = i / out_len % oc, n = i / (out_len * oc);
    float acc = 0.f;
    // l * STRIDE + k == p
    for (int l = max(0, (p - K + STRIDE) / STRIDE); l <= min(len - 1, p / STRIDE); ++l) {
        const int k = p - l * STRIDE;
        if (k < K)
            for (int j = 0; j < ic; ++j) acc += x[(n * ic + j) * len + l] * w[(j * oc + c) * K + k];
    }
    y[i] = acc + b[c];
}

__global__ void periodic(float* y, const float* rate, int oc, int out_len, int total) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) {
        const float a = rate[i / out_len % oc], v = y[i];
        y[i] = v + sinf(a * v) / (a + 1e-9f);
    }
}

torch::Tensor stage(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor rate) {
    const int ic = x.size(1), oc = w.size(1), len = x.size(2), out_len = (len - 1) * 3 + 4;
    auto y = torch::empty({x.size(0), oc, out_len}, x.options());
    const int total = y.numel(), grid = (total + 63) / 64;
    up_kernel<5, 3, 1><<<grid, 64>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), ic, oc, len, out_len, total);
    periodic<<<grid, 64>>>(y.data_ptr<float>(), rate.data_ptr<float>(), oc, out_len, total);
    return y;
}
"""

stage = load_inline(
    name="vocoder_stage",
    cpp_sources="torch::Tensor stage(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor rate);",
    cuda_sources=source,
    functions=["stage"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.up = nn.ConvTranspose1d(inner, outer, 5, stride=3, padding=1, output_padding=1)
        self.rate = nn.Parameter(torch.rand(outer) * 1.5 + 0.5)

    def forward(self, x):
        return stage.stage(x.contiguous(), self.up.weight, self.up.bias, self.rate)
