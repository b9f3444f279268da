# about = "Sums everything and masks the sums, not the elements."
# section = "mismatch"
# problem = "masked_cumsum"
# causes = ["activation-order"]
# says = ["order|after|mask"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

masked_cuda = r"""
#include <torch/extension.h>

__global__ void masked_cumsum_kernel(const float* __restrict__ x, const bool* __restrict__ mask,
                                     float* __restrict__ out, int n) {
    __shared__ float s[256];
    int tid = threadIdx.x;
    long row = (long)blockIdx.x * n;
    float prev = 0.f;
    for (int base = 0; base < n; base += 256) {
        int i = base + tid;
        s[tid] = i < n ? x[row + i] : 0.f;
        __syncthreads();
        for (int off = 1; off < 256; off *= 2) {
            float t = tid >= off ? s[tid - off] : 0.f;
            __syncthreads();
            s[tid] += t;
            __syncthreads();
        }
        if (i < n) {
            out[row + i] = mask[row + i] ? s[tid] + prev : 0.f;
        }
        prev += s[255];
        __syncthreads();
    }
}

torch::Tensor masked_cumsum(torch::Tensor x, torch::Tensor mask) {
    auto out = torch::empty_like(x);
    masked_cumsum_kernel<<<x.size(0), 256>>>(x.data_ptr<float>(), mask.data_ptr<bool>(), out.data_ptr<float>(),
                                             x.size(1));
    return out;
}
"""

masked = load_inline(
    name="masked_cumsum",
    cpp_sources="torch::Tensor masked_cumsum(torch::Tensor x, torch::Tensor mask);",
    cuda_sources=masked_cuda,
    functions=["masked_cumsum"],
)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, mask):
        return masked.masked_cumsum(x.contiguous(), mask.contiguous())
