# about = "Right: the Huber loss as c (a - c / 2) with c the size cut off at kappa, and the levels as integers over 2 n."
# section = "right"
# problem = "quantile_huber"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

// A thread per sample; targets in the inner loop are read by float, predictions stay in a register.
__global__ void samples(const float* __restrict__ predicted, const float* __restrict__ target, float* __restrict__ out, int batch, int n,
                        int m, float kappa) {
    const int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    float above = 0.f, below = 0.f;
    for (int i = 0; i < n; ++i) {
        const float p = predicted[b * n + i];
        float high = 0.f, low = 0.f;
        for (int j = 0; j < m; ++j) {
            const float u = target[b * m + j] - p, a = fabsf(u), c = fminf(a, kappa);
            const float huber = c * (a - 0.5f * c);
            high += u >= 0.f ? huber : 0.f;
            low += u < 0.f ? huber : 0.f;
        }
        above += (2 * i + 1) * high;
        below += (2 * (n - i) - 1) * low;
    }
    out[b] = (above + below) / (2.f * n * m * kappa);
}

torch::Tensor samples_loss(torch::Tensor predicted, torch::Tensor target, double kappa) {
    const int batch = predicted.size(0);
    auto out = torch::empty({batch}, predicted.options());
    samples<<<(batch + 31) / 32, 32, 0, at::cuda::getCurrentCUDAStream()>>>(predicted.data_ptr<float>(), target.data_ptr<float>(),
                                                                          out.data_ptr<float>(), batch, predicted.size(1),
                                                                          target.size(1), kappa);
    return out;
}
"""
ext = load_inline(
    name="samples_loss",
    cpp_sources="torch::Tensor samples_loss(torch::Tensor predicted, torch::Tensor target, double kappa);",
    cuda_sources=SRC,
    functions=["samples_loss"],
)


class ModelNew(nn.Module):
    def __init__(self, kappa):
        super().__init__()
        self.kappa = kappa

    def forward(self, predicted, target):
        return ext.samples_loss(predicted.contiguous(), target.contiguous(), self.kappa)
