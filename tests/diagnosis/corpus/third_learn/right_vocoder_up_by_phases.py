# about = "Right: each phase of the stride is a small convolution of its own."
# section = "right"
# problem = "vocoder_up"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// out[3 q + phase - 1] = sum over taps k = phase, phase + 3 of x[q - (k - phase) / 3] * w[k]
__global__ void phases(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b, const float* __restrict__ rate,
                       float* __restrict__ y, int IC, int OC, int L, int OL) {
    const int phase = blockIdx.x, oc = blockIdx.y, n = blockIdx.z;
    const float a = rate[oc];
    for (int q = threadIdx.x; 3 * q + phase - 1 < OL; q += blockDim.x) {
        const int at = 3 * q + phase - 1;
        if (at < 0) continue;
        float v = b[oc];
        for (int c = 0; c < IC; ++c) {
            const float* in = x + ((size_t)n * IC + c) * L;
            const float* f = w + ((size_t)c * OC + oc) * 5;
            if (q < L) v = fmaf(in[q], f[phase], v);
            if (phase + 3 < 5 && q >= 1 && q - 1 < L) v = fmaf(in[q - 1], f[phase + 3], v);
        }
        const float s = sinf(a * v);
        y[((size_t)n * OC + oc) * OL + at] = v + s * s / (a + 1e-9f);
    }
}

torch::Tensor by_phases(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor rate) {
    const int L = x.size(2), OC = w.size(1), OL = 3 * L + 1;
    auto y = torch::empty({x.size(0), OC, OL}, x.options());
    phases<<<dim3(3, OC, x.size(0)), 32, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
        rate.data_ptr<float>(), y.data_ptr<float>(), x.size(1), OC, L, OL);
    return y;
}
"""
ext = load_inline("up_by_phases", cpp_sources="torch::Tensor by_phases(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor rate);",
                  cuda_sources=SRC, functions=["by_phases"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.up = nn.ConvTranspose1d(inner, outer, 5, stride=3, padding=1, output_padding=1)
        self.rate = nn.Parameter(torch.rand(outer) * 1.5 + 0.5)

    def forward(self, x):
        return ext.by_phases(x.contiguous(), self.up.weight, self.up.bias, self.rate)
