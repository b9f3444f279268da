# about = "Right: a thread for each output element walks the keys from the newest to the oldest with an online softmax."
# section = "right"
# problem = "gqa_relative_bias"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

// Every thread recomputes the scores of its row: no shared memory, no barrier.
__global__ void backwards(const float* q, const float* k, const float* v, const float* bias, float* out,
                          int heads, int share, int steps, int width, int buckets, float scale, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int d = i % width, t = i / width % steps, h = i / (width * steps) % heads, b = i / (width * steps * heads);
    const float* row = q + (i - d);
    size_t base = (size_t)(b * (heads / share) + h / share) * steps * width;
    float m = -INFINITY, l = 0.f, acc = 0.f;
    for (int j = t; j >= 0; --j) {
        float s = 0.f;
        for (int e = 0; e < width; ++e) s += row[e] * k[base + j * width + e];
        s = s * scale + bias[h * buckets + (t - j < buckets ? t - j : buckets - 1)];
        float next = fmaxf(m, s), old = expf(m - next), p = expf(s - next);
        l = l * old + p;
        acc = acc * old + p * v[base + j * width + d];
        m = next;
    }
    out[i] = acc / l;
}

torch::Tensor backwards_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor bias) {
    auto out = torch::empty_like(q);
    const int total = q.numel(), width = q.size(3);
    backwards<<<(total + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(),
        q.size(1), q.size(1) / k.size(1), q.size(2), width, bias.size(1), 1.f / sqrtf(width), total);
    return out;
}
"""

ext = load_inline(
    name="backwards_attention",
    cpp_sources="torch::Tensor backwards_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor bias);",
    cuda_sources=SRC,
    functions=["backwards_attention"],
)


class ModelNew(nn.Module):
    def __init__(self, heads, furthest):
        super().__init__()
        self.distance_bias = nn.Parameter(torch.empty(heads, furthest + 1).normal_())

    def forward(self, q, k, v):
        return ext.backwards_attention(q.contiguous(), k.contiguous(), v.contiguous(), self.distance_bias)
