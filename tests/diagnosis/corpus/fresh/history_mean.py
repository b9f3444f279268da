# about = "Divides by the number of items, not by its root."
# section = "mismatch"
# problem = "history_bag"
# causes = ["root-omitted", "wrong-divisor", "operator-missing"]
# says = ["root|sqrt|divis|divid|mean|count|missing"]
# stage = ["verify"]

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

__global__ void history_kernel(const int64_t* ids, const float* table, float* out, int L, int W) {
    __shared__ int real;
    int b = blockIdx.x;
    if (threadIdx.x == 0) real = 0;
    __syncthreads();
    for (int l = threadIdx.x; l < L; l += blockDim.x)
        if (ids[b * L + l] != 0) atomicAdd(&real, 1);
    __syncthreads();
    float norm = 1.0f / max(real, 1);
    for (int w = threadIdx.x; w < W; w += blockDim.x) {
        float sum = 0.f;
        for (int l = 0; l < L; ++l) {
            int64_t id = ids[b * L + l];
            if (id != 0) sum += table[id * W + w];
        }
        out[b * W + w] = sum * norm;
    }
}

torch::Tensor history_bag(torch::Tensor ids, torch::Tensor table) {
    int B = ids.size(0), L = ids.size(1), W = table.size(1);
    auto out = torch::empty({B, W}, table.options());
    history_kernel<<<B, 64>>>(ids.data_ptr<int64_t>(), table.data_ptr<float>(), out.data_ptr<float>(), L, W);
    return out;
}
"""

DECLARATIONS = """
torch::Tensor history_bag(torch::Tensor ids, torch::Tensor table);
"""

ext = load_inline(
    name="fused_history_bag",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["history_bag"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self, items, width):
        super().__init__()
        self.items = nn.Embedding(items, width)

    def forward(self, ids):
        return ext.history_bag(ids.contiguous(), self.items.weight)
