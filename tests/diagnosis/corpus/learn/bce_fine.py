# about = "A right answer: both terms by one logarithm, four elements a thread."
# section = "right"
# problem = "bce_weighted"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void fused_bce(const float* x, const float* y, const float* p, float* sums, int n, int labels) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    float sum = 0.f;
    #pragma unroll
    for (int e = 0; e < 4; ++e) {
        int i = first + e;
        if (i < n) {
            float weight = 1.f + (p[i % labels] - 1.f) * y[i];
            float tail = log1pf(expf(-fabsf(x[i]))) + fmaxf(-x[i], 0.f);
            sum += (1.f - y[i]) * x[i] + weight * tail;
        }
    }
    for (int o = 1; o < 32; o *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void mean_of(const float* sums, float* out, int blocks, int n) {
    float total = 0.f;
    for (int b = blocks - 1; b >= 0; --b) total += sums[b];
    *out = total / n;
}

torch::Tensor bce(torch::Tensor x, torch::Tensor y, torch::Tensor p) {
    int n = x.numel(), blocks = (n + 127) / 128;
    auto sums = torch::empty({blocks}, x.options());
    auto out = torch::empty({}, x.options());
    fused_bce<<<blocks, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), p.data_ptr<float>(), sums.data_ptr<float>(), n, p.size(0));
    mean_of<<<1, 1>>>(sums.data_ptr<float>(), out.data_ptr<float>(), blocks, n);
    return out;
}
"""

ext = load_inline(
    name="fused_bce",
    cpp_sources="torch::Tensor bce(torch::Tensor x, torch::Tensor y, torch::Tensor p);",
    cuda_sources=source,
    functions=["bce"],
)


class ModelNew(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.register_buffer("positive", torch.rand(labels) * 3 + 1)

    def forward(self, logits, target):
        return ext.bce(logits.contiguous(), target.contiguous(), self.positive.contiguous())
