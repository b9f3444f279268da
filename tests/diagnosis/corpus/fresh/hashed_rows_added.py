# about = "The rows of the two tables are added, not multiplied."
# section = "mismatch"
# problem = "hashed_embedding"
# causes = ["wrong-combine", "operator-missing"]
# says = ["add|sum|product|multipl|combin|operation|operator"]
# stage = ["verify"]

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

__global__ void hashed_rows(const int64_t* __restrict__ ids, const float* __restrict__ low, const float* __restrict__ high,
                            float* __restrict__ out, int n, int width, int buckets, float scale) {
    int token = blockIdx.x;
    if (token >= n) return;
    int id = (int)ids[token];
    const float* a = low + (id % buckets) * width;
    const float* b = high + (id / buckets) * width;
    for (int j = threadIdx.x; j < width; j += blockDim.x)
        out[(size_t)token * width + j] = (a[j] + b[j]) * scale;
}

torch::Tensor hashed_embedding(torch::Tensor ids, torch::Tensor low, torch::Tensor high) {
    auto sizes = ids.sizes().vec();
    int width = low.size(1), n = ids.numel();
    sizes.push_back(width);
    auto out = torch::empty(sizes, low.options());
    hashed_rows<<<n, 32>>>(ids.data_ptr<int64_t>(), low.data_ptr<float>(), high.data_ptr<float>(), out.data_ptr<float>(),
                           n, width, low.size(0), sqrtf((float)width));
    return out;
}
"""

DECLARATIONS = """
torch::Tensor hashed_embedding(torch::Tensor ids, torch::Tensor low, torch::Tensor high);
"""

ext = load_inline(
    name="fused_hashed_embedding",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["hashed_embedding"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self, buckets, width):
        super().__init__()
        self.buckets = buckets
        self.low = nn.Embedding(buckets, width)
        self.high = nn.Embedding(buckets, width)

    def forward(self, ids):
        return ext.hashed_embedding(ids.contiguous(), self.low.weight, self.high.weight)
