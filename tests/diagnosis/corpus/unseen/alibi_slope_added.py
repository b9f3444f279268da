# about = "The penalty of the distance is added where the reference subtracts it."
# section = "mismatch"
# problem = "attention_alibi"
# causes = ["sign-error"]
# says = ["sign|negat|subtract|added|minus|opposite|other way"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <math.h>

__global__ void alibi_attention_kernel(const float* __restrict__ q, const float* __restrict__ k,
                                       const float* __restrict__ v, const float* __restrict__ slopes,
                                       float* __restrict__ out, int heads, int n, int d, float scale) {
    extern __shared__ float p[];
    const int row = blockIdx.x % n;
    const int bh = blockIdx.x / n;
    const int h = bh % heads;
    const float* qr = q + ((size_t)bh * n + row) * d;
    const float* kb = k + (size_t)bh * n * d;
    const float* vb = v + (size_t)bh * n * d;
    const float slope = slopes[h];

    for (int j = threadIdx.x; j <= row; j += blockDim.x) {
        float dot = 0.0f;
        for (int c = 0; c < d; ++c) dot += qr[c] * kb[j * d + c];
        p[j] = dot * scale + slope * (float)(row - j);
    }
    __syncthreads();

    float m = -INFINITY;
    for (int j = 0; j <= row; ++j) m = fmaxf(m, p[j]);
    float l = 0.0f;
    for (int j = 0; j <= row; ++j) l += expf(p[j] - m);

    for (int c = threadIdx.x; c < d; c += blockDim.x) {
        float acc = 0.0f;
        for (int j = 0; j <= row; ++j) acc += expf(p[j] - m) * vb[j * d + c];
        out[((size_t)bh * n + row) * d + c] = acc / l;
    }
}

torch::Tensor alibi_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor slopes) {
    int b = q.size(0), h = q.size(1), n = q.size(2), d = q.size(3);
    auto out = torch::empty_like(q);
    alibi_attention_kernel<<<b * h * n, 32, n * sizeof(float)>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), slopes.data_ptr<float>(),
        out.data_ptr<float>(), h, n, d, 1.0f / sqrtf((float)d));
    return out;
}
"""

cpp_source = "torch::Tensor alibi_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor slopes);"

alibi = load_inline(name="alibi", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["alibi_attention"])


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.register_buffer("slopes", 2.0 ** (-torch.arange(heads) * 0.8))

    def forward(self, q, k, v):
        return alibi.alibi_attention(q.contiguous(), k.contiguous(), v.contiguous(), self.slopes)
