# about = "The sort stops before its last merge, so that the row is two sorted parts."
# section = "mismatch"
# problem = "trimmed_mean"
# causes = ["not-sorted"]
# says = ["sort|order|merge"]
# stage = ["verify"]

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

// Bitonic sort of a padded row in shared memory.
__global__ void trimmed(const float* x, float* out, int n, int size, int low, int high) {
    extern __shared__ float a[];
    int i = threadIdx.x;
    a[i] = i < n ? x[blockIdx.x * n + i] : INFINITY;
    __syncthreads();
    for (int k = 2; k < size; k <<= 1) {
        for (int j = k >> 1; j > 0; j >>= 1) {
            int other = i ^ j;
            if (other > i) {
                bool up = (i & k) == 0;
                float u = a[i], v = a[other];
                if ((u > v) == up) {
                    a[i] = v;
                    a[other] = u;
                }
            }
            __syncthreads();
        }
    }
    if (i == 0) {
        float sum = 0.f;
        for (int j = low; j < n - high; ++j) sum += a[j];
        out[blockIdx.x] = sum / (n - low - high) - a[(n - 1) / 2];
    }
}

torch::Tensor trimmed_mean(torch::Tensor x, int64_t low, int64_t high) {
    int rows = x.size(0), n = x.size(1), size = 1;
    while (size < n) size *= 2;
    auto out = torch::empty({rows}, x.options());
    trimmed<<<rows, size, size * sizeof(float)>>>(x.data_ptr<float>(), out.data_ptr<float>(), n, size, low, high);
    return out;
}
"""

DECLARATIONS = """
torch::Tensor trimmed_mean(torch::Tensor x, int64_t low, int64_t high);
"""

ext = load_inline(
    name="fused_trimmed_mean",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["trimmed_mean"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.trimmed_mean(x.contiguous(), 2, 3)
