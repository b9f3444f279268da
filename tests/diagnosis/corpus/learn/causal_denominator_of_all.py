# about = "The mask is applied after the softmax: the denominator holds the masked keys too."
# section = "mismatch"
# problem = "attention_causal"
# causes = ["mask-wrong-place", "activation-order"]
# says = ["mask|denomin|sum|causal"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#define THREADS 64

__device__ __forceinline__ float block_sum(float v, float* buf) {
    buf[threadIdx.x] = v;
    __syncthreads();
    for (int s = THREADS / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) buf[threadIdx.x] += buf[threadIdx.x + s];
        __syncthreads();
    }
    float r = buf[0];
    __syncthreads();
    return r;
}

__device__ __forceinline__ float block_max(float v, float* buf) {
    buf[threadIdx.x] = v;
    __syncthreads();
    for (int s = THREADS / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) buf[threadIdx.x] = fmaxf(buf[threadIdx.x], buf[threadIdx.x + s]);
        __syncthreads();
    }
    float r = buf[0];
    __syncthreads();
    return r;
}

__global__ void masked_attention_kernel(const float* Q, const float* K, const float* V, float* O, int N, int D) {
    __shared__ float buf[THREADS];
    extern __shared__ float p[];
    const int i = blockIdx.x, bh = blockIdx.y;
    const size_t base = (size_t)bh * N * D;
    const float scale = rsqrtf((float)D);
    float local_max = -INFINITY;
    for (int j = threadIdx.x; j < N; j += THREADS) {
        float acc = 0.f;
        for (int d = 0; d < D; ++d) acc += Q[base + i * D + d] * K[base + j * D + d];
        p[j] = acc * scale;
        local_max = fmaxf(local_max, p[j]);
    }
    const float row_max = block_max(local_max, buf);
    float local_sum = 0.f;
    for (int j = threadIdx.x; j < N; j += THREADS) {
        p[j] = expf(p[j] - row_max);
        local_sum += p[j];
    }
    const float row_sum = block_sum(local_sum, buf);
    for (int d = threadIdx.x; d < D; d += THREADS) {
        float acc = 0.f;
        for (int j = 0; j <= i; ++j) acc += p[j] / row_sum * V[base + j * D + d];
        O[base + i * D + d] = acc;
    }
}

torch::Tensor masked_attention(torch::Tensor Q, torch::Tensor K, torch::Tensor V) {
    auto O = torch::zeros_like(Q);
    const int N = Q.size(2), D = Q.size(3);
    dim3 grid(N, Q.size(0) * Q.size(1));
    masked_attention_kernel<<<grid, THREADS, N * sizeof(float)>>>(
        Q.data_ptr<float>(), K.data_ptr<float>(), V.data_ptr<float>(), O.data_ptr<float>(), N, D);
    return O;
}
"""

attn = load_inline(
    name="masked_attention",
    cpp_sources="torch::Tensor masked_attention(torch::Tensor Q, torch::Tensor K, torch::Tensor V);",
    cuda_sources=cuda_src,
    functions=["masked_attention"],
    extra_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.length = length

    def forward(self, q, k, v):
        return attn.masked_attention(q.contiguous(), k.contiguous(), v.contiguous())
