# about = "Counts ranks in place of sorting and adds what lies in between with atomics."
# section = "right"
# problem = "trimmed_mean"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

// No sort: an element's rank is the number of those before it, ties broken by place.
__global__ void by_rank(const float* x, float* out, int n) {
    __shared__ float sum, middle;
    const float* row = x + blockIdx.x * n;
    if (threadIdx.x == 0) sum = 0.f;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int rank = 0;
        for (int j = 0; j < n; ++j) rank += row[j] < row[i] || (row[j] == row[i] && j < i);
        if (rank >= 2 && rank < n - 3) atomicAdd(&sum, row[i]);
        if (rank == (n - 1) / 2) middle = row[i];
    }
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = sum / (float)(n - 5) - middle;
}

torch::Tensor trimmed_by_rank(torch::Tensor x) {
    auto out = torch::empty({x.size(0)}, x.options());
    by_rank<<<x.size(0), 32>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
    return out;
}
"""

ext = load_inline("trimmed_by_rank_module", ["torch::Tensor trimmed_by_rank(torch::Tensor x);"], [SOURCE], functions=["trimmed_by_rank"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.trimmed_by_rank(x.contiguous())
