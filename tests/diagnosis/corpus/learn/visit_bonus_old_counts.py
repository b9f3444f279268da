# about = "The bonus is taken by the counts before the visits, which may be zero."
# section = "mismatch"
# problem = "visit_bonus"
# causes = ["state-order", "divide-by-zero", "overflow-to-nan"]
# says = ["before|old|zero|updat|order|inf"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

code = r"""
#include <torch/extension.h>

__global__ void bonus(const int64_t* __restrict__ counts, const int64_t* __restrict__ ids, const float* __restrict__ r,
                      float* __restrict__ out, float beta, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float c = static_cast<float>(counts[ids[i]]);
    out[i] = r[i] + beta / sqrtf(c);
}

__global__ void visit(int64_t* counts, const int64_t* __restrict__ ids, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(reinterpret_cast<unsigned long long*>(counts + ids[i]), 1ULL);
}

torch::Tensor visit_and_bonus(torch::Tensor counts, torch::Tensor ids, torch::Tensor r, float beta) {
    const int n = ids.numel();
    auto out = torch::empty({n}, r.options());
    const int threads = 64, blocks = (n + 63) / 64;
    bonus<<<blocks, threads>>>(counts.data_ptr<int64_t>(), ids.data_ptr<int64_t>(), r.data_ptr<float>(), out.data_ptr<float>(), beta, n);
    visit<<<blocks, threads>>>(counts.data_ptr<int64_t>(), ids.data_ptr<int64_t>(), n);
    return out;
}
"""
module = load_inline(
    name="visit_and_bonus",
    cpp_sources="torch::Tensor visit_and_bonus(torch::Tensor counts, torch::Tensor ids, torch::Tensor r, float beta);",
    cuda_sources=code,
    functions=["visit_and_bonus"],
)


class ModelNew(nn.Module):
    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def forward(self, counts, ids, reward):
        bonus = module.visit_and_bonus(counts, ids.contiguous(), reward.contiguous(), self.beta)
        return counts.clone(), bonus
