# about = "The reduced dimensions are kept with size one."
# section = "mismatch"
# problem = "logsumexp_two_dims"
# causes = ["wrong-shape", "keepdim-broadcast", "output-size"]
# says = ["6, 33|6, 1, 33|keepdim|shape|dim"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

lse_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void lse_kernel(const float* __restrict__ x, float* __restrict__ out, int C, int H, int W) {
    __shared__ float sm[64];
    const int h = blockIdx.x, n = blockIdx.y, tid = threadIdx.x;
    const float* base = x + (size_t)n * C * H * W + h * W;

    float m = -INFINITY;
    for (int i = tid; i < C * W; i += blockDim.x) m = fmaxf(m, base[(i / W) * H * W + i % W]);
    sm[tid] = m;
    __syncthreads();
    for (int s = 32; s > 0; s >>= 1) {
        if (tid < s) sm[tid] = fmaxf(sm[tid], sm[tid + s]);
        __syncthreads();
    }
    m = sm[0];
    __syncthreads();

    float sum = 0.0f;
    for (int i = tid; i < C * W; i += blockDim.x) sum += expf(base[(i / W) * H * W + i % W] - m);
    sm[tid] = sum;
    __syncthreads();
    for (int s = 32; s > 0; s >>= 1) {
        if (tid < s) sm[tid] += sm[tid + s];
        __syncthreads();
    }
    if (tid == 0) out[n * H + h] = m + logf(sm[0]);
}

torch::Tensor lse(torch::Tensor x) {
    const int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    auto out = torch::empty({N, 1, H, 1}, x.options());
    lse_kernel<<<dim3(H, N), 64>>>(x.data_ptr<float>(), out.data_ptr<float>(), C, H, W);
    return out;
}
"""

lse_ext = load_inline(
    name="lse_ext", cpp_sources="torch::Tensor lse(torch::Tensor x);", cuda_sources=lse_source, functions=["lse"]
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return lse_ext.lse(x.contiguous())
