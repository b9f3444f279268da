# about = "Three are cut off below and two above."
# section = "mismatch"
# problem = "trimmed_mean"
# causes = ["padding-sides-swapped", "operands-swapped", "wrong-rank", "index-off-by-one", "sort-order"]
# says = ["swap|exchang|rank|end|order|shift|one|slice|side"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

// Bitonic sort of a padded row in shared memory.
__global__ void trimmed(const float* x, float* out, int n, int size, int low, int high) {
    extern __shared__ float a[];
    int i = threadIdx.x;
    a[i] = i < n ? x[blockIdx.x * n + i] : INFINITY;
    __syncthreads();
    for (int k = 2; k <= size; k <<= 1) {
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

ext = load_inline("trimmed_mean_module", ["torch::Tensor trimmed_mean(torch::Tensor x, int64_t low, int64_t high);"], [SOURCE], functions=["trimmed_mean"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.trimmed_mean(x.contiguous(), 3, 2)
