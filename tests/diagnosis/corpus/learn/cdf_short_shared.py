# about = "Shared memory for one array, where the kernel uses two."
# section = "run"
# problem = "softmax_cdf"
# causes = ["shared-out-of-bounds-write", "shared-out-of-bounds-read"]
# says = ["shared"]
# stage = ["run", "verify", "integrity"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void softmax_prefix(const float* __restrict__ in, float* __restrict__ out, int n) {
    extern __shared__ float memory[];
    float* a = memory;
    float* b = memory + blockDim.x;
    int t = threadIdx.x;
    long row = (long)blockIdx.x * n;

    a[t] = t < n ? in[row + t] : -INFINITY;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (t < s) a[t] = fmaxf(a[t], a[t + s]);
        __syncthreads();
    }
    float peak = a[0];
    __syncthreads();

    a[t] = t < n ? expf(in[row + t] - peak) : 0.f;
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        b[t] = t >= d ? a[t] + a[t - d] : a[t];
        __syncthreads();
        float* swap = a;
        a = b;
        b = swap;
    }
    if (t < n) out[row + t] = a[t] / a[blockDim.x - 1];
}

torch::Tensor softmax_prefix_sum(torch::Tensor logits) {
    auto out = torch::empty_like(logits);
    int n = logits.size(1);
    int threads = 1;
    while (threads < n) threads *= 2;
    softmax_prefix<<<logits.size(0), threads, threads * sizeof(float)>>>(logits.data_ptr<float>(),
                                                                        out.data_ptr<float>(), n);
    return out;
}
"""

module = load_inline(
    name="softmax_prefix_sum",
    cpp_sources="torch::Tensor softmax_prefix_sum(torch::Tensor logits);",
    cuda_sources=source,
    functions=["softmax_prefix_sum"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, logits):
        return module.softmax_prefix_sum(logits.contiguous())
