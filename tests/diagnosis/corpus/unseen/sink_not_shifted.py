# about = "The exponential of the sink is added to the denominator without the maximum being subtracted."
# section = "mismatch"
# problem = "attention_sink"
# causes = ["lse-without-max", "rescale-missing", "max-not-added-back", "wrong-combine"]
# says = ["max|shift|rescal|sink|denominator"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <cuda_runtime.h>

__global__ void sink_attention(const float* q, const float* k, const float* v, const float* sink, float* out,
                               int H, int NQ, int NK, int D) {
    __shared__ float buf[64];
    __shared__ float prob[64];
    int bh = blockIdx.y;
    int i = blockIdx.x;
    int tid = threadIdx.x;
    const float* qi = q + (bh * NQ + i) * D;

    float s = -INFINITY;
    if (tid < NK) {
        s = 0.0f;
        for (int c = 0; c < D; ++c) s += qi[c] * k[(bh * NK + tid) * D + c];
        s *= rsqrtf((float)D);
    }
    buf[tid] = s;
    __syncthreads();
    for (int off = 32; off > 0; off >>= 1) {
        if (tid < off) buf[tid] = fmaxf(buf[tid], buf[tid + off]);
        __syncthreads();
    }
    float m = buf[0];
    __syncthreads();

    float e = tid < NK ? expf(s - m) : 0.0f;
    prob[tid] = e;
    buf[tid] = e;
    __syncthreads();
    for (int off = 32; off > 0; off >>= 1) {
        if (tid < off) buf[tid] += buf[tid + off];
        __syncthreads();
    }
    float denom = buf[0] + expf(sink[bh % H]);

    if (tid < D) {
        float acc = 0.0f;
        for (int j = 0; j < NK; ++j) acc += prob[j] * v[(bh * NK + j) * D + tid];
        out[(bh * NQ + i) * D + tid] = acc / denom;
    }
}

torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor sink) {
    auto out = torch::empty_like(q);
    TORCH_CHECK(k.size(2) <= 64 && q.size(3) <= 64, "too large");
    dim3 grid(q.size(2), q.size(0) * q.size(1));
    sink_attention<<<grid, 64>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
        sink.data_ptr<float>(), out.data_ptr<float>(), q.size(1), q.size(2), k.size(2), q.size(3));
    return out;
}
"""

sink_module = load_inline(
    name="sink_attention_ext",
    cpp_sources="torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor sink);",
    cuda_sources=source,
    functions=["attention"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.sink = nn.Parameter(torch.randn(heads) + 1)

    def forward(self, q, k, v):
        return sink_module.attention(q.contiguous(), k.contiguous(), v.contiguous(), self.sink)
