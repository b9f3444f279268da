# about = "The kernel calls a helper that is compiled for the host only."
# section = "build"
# problem = "smooth_l1"
# causes = ["host-function-in-device-code"]
# says = ["__host__|__device__|host function"]
# stage = ["build"]
# line = "huber"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

constexpr int BLOCK = 128;

static float huber(float d, float beta) { return d < beta ? 0.5f * d * d / beta : d - 0.5f * beta; }

__global__ void smooth_l1_partial(const float* p, const float* t, float* partial, int n, float beta) {
    __shared__ float cache[BLOCK];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    float v = 0.f;
    if (i < n) {
        float d = fabsf(p[i] - t[i]);
        v = huber(d, beta);
    }
    cache[threadIdx.x] = v;
    __syncthreads();
    for (int s = BLOCK / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) cache[threadIdx.x] += cache[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = cache[0];
}

__global__ void smooth_l1_final(const float* partial, float* out, int blocks, int n) {
    if (threadIdx.x == 0) {
        float s = 0.f;
        for (int i = 0; i < blocks; ++i) s += partial[i];
        *out = s / n;
    }
}

torch::Tensor smooth_l1(const torch::Tensor& prediction, const torch::Tensor& target, double beta) {
    int n = prediction.numel();
    int blocks = (n + BLOCK - 1) / BLOCK;
    auto partial = torch::empty({blocks}, prediction.options());
    auto out = torch::empty({}, prediction.options());
    smooth_l1_partial<<<blocks, BLOCK>>>(prediction.data_ptr<float>(), target.data_ptr<float>(), partial.data_ptr<float>(), n, (float)beta);
    smooth_l1_final<<<1, 32>>>(partial.data_ptr<float>(), out.data_ptr<float>(), blocks, n);
    return out;
}
"""
header = "torch::Tensor smooth_l1(const torch::Tensor& prediction, const torch::Tensor& target, double beta);"
op = load_inline(name="smooth_l1_op", cpp_sources=[header], cuda_sources=[source], functions=["smooth_l1"])


class ModelNew(nn.Module):
    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def forward(self, prediction, target):
        return op.smooth_l1(prediction.contiguous(), target.contiguous(), self.beta)
