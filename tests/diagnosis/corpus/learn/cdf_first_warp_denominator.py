# about = "The sum under the softmax has only the first warp's part."
# section = "mismatch"
# problem = "softmax_cdf"
# causes = ["lost-lanes", "partial-sums-not-combined", "wrong-divisor"]
# says = ["warp|lane|32|partial|part of|thread"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda = r"""
#define NT 64

__device__ float warp_max(float v) {
    for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
    return v;
}

__device__ float warp_sum(float v) {
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

__global__ void cdf_kernel(const float* logits, float* cdf, int n) {
    __shared__ float top[2];
    __shared__ float norm;
    __shared__ float scan[NT];
    const float* row = logits + (long)blockIdx.x * n;
    float m = -INFINITY;
    for (int i = threadIdx.x; i < n; i += NT) m = fmaxf(m, row[i]);
    m = warp_max(m);
    if (threadIdx.x % 32 == 0) top[threadIdx.x / 32] = m;
    __syncthreads();
    m = fmaxf(top[0], top[1]);

    float s = 0.f;
    for (int i = threadIdx.x; i < n; i += NT) s += expf(row[i] - m);
    s = warp_sum(s);
    if (threadIdx.x == 0) norm = s;
    __syncthreads();

    float carry = 0.f;
    for (int base = 0; base < n; base += NT) {
        int i = base + threadIdx.x;
        scan[threadIdx.x] = i < n ? expf(row[i] - m) / norm : 0.f;
        __syncthreads();
        for (int d = 1; d < NT; d *= 2) {
            float left = threadIdx.x >= d ? scan[threadIdx.x - d] : 0.f;
            __syncthreads();
            scan[threadIdx.x] += left;
            __syncthreads();
        }
        if (i < n) cdf[(long)blockIdx.x * n + i] = carry + scan[threadIdx.x];
        carry += scan[NT - 1];
        __syncthreads();
    }
}

torch::Tensor cdf(torch::Tensor logits) {
    auto out = torch::empty_like(logits);
    cdf_kernel<<<logits.size(0), NT>>>(logits.data_ptr<float>(), out.data_ptr<float>(), logits.size(1));
    return out;
}
"""

ext = load_inline(
    name="cdf_ext", cpp_sources="torch::Tensor cdf(torch::Tensor logits);", cuda_sources=cuda, functions=["cdf"]
)


class ModelNew(nn.Module):
    def forward(self, logits):
        return ext.cdf(logits.contiguous())
