# about = "The sum is divided by the batch, ignored rows included, and the logarithm is of base two."
# section = "mismatch"
# problem = "cross_entropy_weighted"
# faults = [{causes = ["wrong-divisor"], says = ["divi|batch|count|weight"]}, {causes = ["base-2-for-e"], says = ["log2|base|log"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

kernel_code = r"""
__global__ void weighted_ce(const float* logits, const int64_t* target, const float* weight, float* partial, int n, int k) {
    __shared__ float shared[64];
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float mine = 0.f;
    if (row < n && target[row] != -100) {
        float m = -INFINITY, s = 0.f;
        for (int c = 0; c < k; ++c) {
            float x = logits[row * k + c];
            float next = fmaxf(m, x);
            s = s * expf(m - next) + expf(x - next);
            m = next;
        }
        mine = weight[target[row]] * (m + log2f(s) - logits[row * k + target[row]]);
    }
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(partial, shared[0] / n);
}

torch::Tensor weighted_ce_cuda(torch::Tensor logits, torch::Tensor target, torch::Tensor weight) {
    auto out = torch::zeros({}, logits.options());
    int n = logits.size(0), k = logits.size(1);
    weighted_ce<<<(n + 63) / 64, 64>>>(logits.data_ptr<float>(), target.data_ptr<int64_t>(), weight.data_ptr<float>(),
                                     out.data_ptr<float>(), n, k);
    return out;
}
"""

ext = load_inline(name="weighted_ce", cpp_sources="torch::Tensor weighted_ce_cuda(torch::Tensor logits, torch::Tensor target, torch::Tensor weight);",
                  cuda_sources=kernel_code, functions=["weighted_ce_cuda"], extra_cuda_cflags=["-O2"])


class ModelNew(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.register_buffer("weight", torch.rand(classes) + 0.5)

    def forward(self, logits, target):
        return ext.weighted_ce_cuda(logits.contiguous(), target.contiguous(), self.weight)
