# about = "The causal mask is left out, and the scale is applied to the queries and to the scores."
# section = "mismatch"
# problem = "attention_causal"
# faults = [{causes = ["mask-ignored", "operator-missing"], says = ["mask|causal|future"]}, {causes = ["scale-doubled", "root-omitted", "wrong-divisor", "operator-doubled"], says = ["scal|twice|root|sqrt|divi"]}]
# stage = ["verify"]

import math

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda = r"""
__global__ void scale_queries(const float* q, float* scaled, int n, float s) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) scaled[i] = q[i] * s;
}

__global__ void attention_rows(const float* q, const float* k, const float* v, float* o, int rows, int n, int d, float s) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    int head = row / n;
    float best = -INFINITY, total = 0.f;
    for (int j = 0; j < n; ++j) {
        float dot = 0.f;
        for (int c = 0; c < d; ++c) dot += q[row * d + c] * k[(head * n + j) * d + c];
        dot *= s;
        if (dot > best) {
            total = total * expf(best - dot) + 1.f;
            best = dot;
        } else {
            total += expf(dot - best);
        }
    }
    for (int c = threadIdx.x; c < d; c += blockDim.x) {
        float acc = 0.f;
        for (int j = 0; j < n; ++j) {
            float dot = 0.f;
            for (int e = 0; e < d; ++e) dot += q[row * d + e] * k[(head * n + j) * d + e];
            acc += expf(dot * s - best) * v[(head * n + j) * d + c];
        }
        o[row * d + c] = acc / total;
    }
}

torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, double s) {
    auto scaled = torch::empty_like(q);
    auto o = torch::empty_like(q);
    int n = q.size(2), d = q.size(3), rows = q.numel() / d;
    scale_queries<<<4, 256>>>(q.data_ptr<float>(), scaled.data_ptr<float>(), q.numel(), (float)s);
    attention_rows<<<(rows + 3) / 4, dim3(16, 4)>>>(scaled.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
        o.data_ptr<float>(), rows, n, d, (float)s);
    return o;
}
"""

ext = load_inline(name="scaled_rows", cpp_sources="torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, double s);",
                  cuda_sources=cuda, functions=["attention"])


class ModelNew(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.length = length

    def forward(self, q, k, v):
        return ext.attention(q.contiguous(), k.contiguous(), v.contiguous(), 1 / math.sqrt(q.shape[-1]))
