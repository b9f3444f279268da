# about = "The totals of a block's warps are never added: every 32 elements begin at the carry."
# section = "mismatch"
# problem = "cumsum_long"
# causes = ["scan-restarts", "partial-sums-not-combined", "lost-lanes"]
# says = ["warp|32|lane"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

__inline__ __device__ float warp_inclusive(float v) {
    int lane = threadIdx.x & 31;
    #pragma unroll
    for (int offset = 1; offset < 32; offset <<= 1) {
        float other = __shfl_up_sync(0xffffffff, v, offset);
        if (lane >= offset) v += other;
    }
    return v;
}

__global__ void cumsum_rows(const float* __restrict__ x, float* __restrict__ y, int n) {
    __shared__ float warp_sums[8];
    __shared__ float carry;
    const float* row = x + (size_t)blockIdx.x * n;
    float* out = y + (size_t)blockIdx.x * n;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (threadIdx.x == 0) carry = 0.f;
    __syncthreads();
    for (int start = 0; start < n; start += 256) {
        int i = start + threadIdx.x;
        float v = warp_inclusive(i < n ? row[i] : 0.f);
        if (lane == 31) warp_sums[warp] = v;
        float base = carry;
        __syncthreads();
        if (i < n) out[i] = base + v;
        if (threadIdx.x == 0) {
            float sum = carry;
            for (int w = 0; w < 8; ++w) sum += warp_sums[w];
            carry = sum;
        }
        __syncthreads();
    }
}

torch::Tensor cumsum_forward(torch::Tensor x) {
    auto y = torch::empty_like(x);
    cumsum_rows<<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
    return y;
}
"""

cpp_src = "torch::Tensor cumsum_forward(torch::Tensor x);"

cumsum_ext = load_inline(name="cumsum_ext", cpp_sources=cpp_src, cuda_sources=cuda_src, functions=["cumsum_forward"])


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, x):
        return cumsum_ext.cumsum_forward(x.contiguous())
