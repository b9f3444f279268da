# about = "The factor is divided by instead of multiplied, and the table of quotients is read one row early."
# section = "mismatch"
# problem = "hashed_embedding"
# faults = [{causes = ["wrong-divisor", "scale-doubled", "scale-missing", "wrong-coefficient"], says = ["scale|factor|divis|divid|multipl|times|power|root"]}, {causes = ["index-off-by-one"], says = ["one|shift|early|row|index"]}]
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
    const float* b = high + max(id / buckets - 1, 0) * width;
    for (int j = threadIdx.x; j < width; j += blockDim.x)
        out[(size_t)token * width + j] = a[j] * b[j] * scale;
}

torch::Tensor hashed_embedding(torch::Tensor ids, torch::Tensor low, torch::Tensor high) {
    auto sizes = ids.sizes().vec();
    int width = low.size(1), n = ids.numel();
    sizes.push_back(width);
    auto out = torch::empty(sizes, low.options());
    hashed_rows<<<n, 32>>>(ids.data_ptr<int64_t>(), low.data_ptr<float>(), high.data_ptr<float>(), out.data_ptr<float>(),
                           n, width, low.size(0), 1.0f / sqrtf((float)width));
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
