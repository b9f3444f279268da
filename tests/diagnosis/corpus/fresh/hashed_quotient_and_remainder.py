# about = "The quotient is looked up where the remainder belongs and the other way round."
# section = "mismatch"
# problem = "hashed_embedding"
# causes = ["operands-swapped", "weights-swapped", "index-ignored", "coordinates-swapped"]
# says = ["swap|exchang|other|quotient|remainder|index|operand"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void hashed_rows(const int64_t* __restrict__ ids, const float* __restrict__ low, const float* __restrict__ high,
                            float* __restrict__ out, int n, int width, int buckets, float scale) {
    int token = blockIdx.x;
    if (token >= n) return;
    int id = (int)ids[token];
    const float* a = low + (id / buckets) * width;
    const float* b = high + (id % buckets) * width;
    for (int j = threadIdx.x; j < width; j += blockDim.x)
        out[(size_t)token * width + j] = a[j] * b[j] * scale;
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

ext = load_inline("hashed_embedding_module", ["torch::Tensor hashed_embedding(torch::Tensor ids, torch::Tensor low, torch::Tensor high);"], [SOURCE], functions=["hashed_embedding"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, buckets, width):
        super().__init__()
        self.buckets = buckets
        self.low = nn.Embedding(buckets, width)
        self.high = nn.Embedding(buckets, width)

    def forward(self, ids):
        return ext.hashed_embedding(ids.contiguous(), self.low.weight, self.high.weight)
