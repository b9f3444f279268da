# about = "Bags are summed, not averaged, and rows are counted from one: the row before is read."
# section = "mismatch"
# problem = "bag_mean"
# faults = [{causes = ["sum-for-mean", "wrong-divisor"], says = ["sum|mean|divi|count"]}, {causes = ["index-off-by-one", "index-ignored"], says = ["row|ind|off by|one|earl|before|previous"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <cuda_runtime.h>

__global__ void accumulate(const int64_t* __restrict__ ids, const int64_t* __restrict__ offsets,
                           const float* __restrict__ table, float* __restrict__ out, int n, int bags, int width) {
    // each block walks over one bag, threads over columns
    const int bag = blockIdx.x;
    const int64_t begin = offsets[bag];
    const int64_t end = bag == bags - 1 ? n : offsets[bag + 1];
    const int col = threadIdx.x;
    if (col >= width) return;
    float acc = 0.f;
    for (int64_t p = begin; p < end; ++p) {
        const int64_t row = ids[p] > 0 ? ids[p] - 1 : 0;
        acc += table[row * width + col];
    }
    out[bag * width + col] = acc;
}

torch::Tensor embedding_bag(torch::Tensor ids, torch::Tensor offsets, torch::Tensor table) {
    auto out = torch::zeros({offsets.size(0), table.size(1)}, table.options());
    accumulate<<<offsets.size(0), 64>>>(ids.data_ptr<int64_t>(), offsets.data_ptr<int64_t>(), table.data_ptr<float>(),
                                      out.data_ptr<float>(), ids.size(0), offsets.size(0), table.size(1));
    return out;
}
"""

embedding_bag = load_inline(
    name="embedding_bag_ext",
    cpp_sources="torch::Tensor embedding_bag(torch::Tensor ids, torch::Tensor offsets, torch::Tensor table);",
    cuda_sources=cuda_src,
    functions=["embedding_bag"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.EmbeddingBag(vocabulary, width, mode="mean")

    def forward(self, ids, offsets):
        return embedding_bag.embedding_bag(ids.contiguous(), offsets.contiguous(), self.table.weight.contiguous())
