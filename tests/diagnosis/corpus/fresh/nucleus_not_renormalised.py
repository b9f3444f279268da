# about = "What is kept is not divided by its sum."
# section = "mismatch"
# problem = "nucleus_filter"
# causes = ["operator-missing", "scale-missing", "wrong-divisor"]
# says = ["divis|divid|normali|missing|sum|scale|left out"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

// A block per row. No sort: the mass before an entry is the sum of all that are more probable.
__global__ void nucleus(const float* logits, float* out, int n, float mass, float inv_temperature) {
    extern __shared__ float p[];
    __shared__ float kept_mass;
    int i = threadIdx.x;
    const float* row = logits + blockIdx.x * n;
    float z = i < n ? row[i] * inv_temperature : -INFINITY;
    if (i < n) p[i] = z;
    if (i == 0) kept_mass = 0.f;
    __syncthreads();
    float top = -INFINITY;
    for (int j = 0; j < n; ++j) top = fmaxf(top, p[j]);
    float total = 0.f;
    for (int j = 0; j < n; ++j) total += expf(p[j] - top);
    __syncthreads();
    if (i < n) p[i] = expf(z - top) / total;
    __syncthreads();
    float mine = 0.f;
    if (i < n) {
        float before = 0.f;
        for (int j = 0; j < n; ++j)
            if (p[j] > p[i] || (p[j] == p[i] && j < i)) before += p[j];
        if (before < mass) {
            mine = p[i];
            atomicAdd(&kept_mass, mine);
        }
    }
    __syncthreads();
    if (i < n) out[blockIdx.x * n + i] = mine;
}

torch::Tensor nucleus_filter(torch::Tensor logits, double mass, double temperature) {
    auto out = torch::empty_like(logits);
    int n = logits.size(1);
    int threads = (n + 31) / 32 * 32;
    nucleus<<<logits.size(0), threads, n * sizeof(float)>>>(logits.data_ptr<float>(), out.data_ptr<float>(), n, mass, 1.f / temperature);
    return out;
}
"""

ext = load_inline("nucleus_filter_module", ["torch::Tensor nucleus_filter(torch::Tensor logits, double mass, double temperature);"], [SOURCE], functions=["nucleus_filter"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, mass, temperature):
        super().__init__()
        self.mass = mass
        self.temperature = temperature

    def forward(self, logits):
        return ext.nucleus_filter(logits.contiguous(), self.mass, self.temperature)
