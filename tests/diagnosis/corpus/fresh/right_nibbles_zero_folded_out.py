# about = "The zero point is taken out of the product and multiplies the sum of the inputs."
# section = "right"
# problem = "nibble_linear"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

// The zero point is folded out: sum((q - z) s x) = s (sum(q x) - z sum(x)), group by group.
__global__ void folded(const float* x, const int64_t* packed, const float* scale, const float* zero, float* y, int K, int N, int G) {
    int n = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (n >= N) return;
    const float* row = x + b * K;
    float out = 0.f;
    for (int g = 0; g < G; ++g) {
        float qx = 0.f, sx = 0.f;
        for (int k = g * (K / G); k < (g + 1) * (K / G); ++k) {
            int code = (int)(packed[n * (K / 2) + (k >> 1)] >> ((k & 1) * 4)) & 0xf;
            qx = fmaf((float)code, row[k], qx);
            sx += row[k];
        }
        out = fmaf(scale[n * G + g], fmaf(-zero[n * G + g], sx, qx), out);
    }
    y[b * N + n] = out;
}

torch::Tensor linear4(torch::Tensor x, torch::Tensor packed, torch::Tensor scale, torch::Tensor zero) {
    int B = x.size(0), K = x.size(1), N = packed.size(0);
    auto y = torch::empty({B, N}, x.options());
    folded<<<dim3((N + 31) / 32, B), 32>>>(x.data_ptr<float>(), packed.data_ptr<int64_t>(), scale.data_ptr<float>(), zero.data_ptr<float>(),
        y.data_ptr<float>(), K, N, scale.size(1));
    return y;
}
"""

ext = load_inline("linear4_module", ["torch::Tensor linear4(torch::Tensor x, torch::Tensor packed, torch::Tensor scale, torch::Tensor zero);"], [SOURCE], functions=["linear4"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x, packed, scale, zero):
        return ext.linear4(x.contiguous(), packed.contiguous(), scale.contiguous(), zero.contiguous())
