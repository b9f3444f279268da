# about = "Threads take every fourth entry, partial sums meet in shared memory."
# section = "right"
# problem = "bag_weighted"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <cstdint>

__global__ void chunked(const int64_t* ids, const int64_t* offsets, const float* w, const float* table, float* out,
                        int entries, int width) {
    __shared__ float part[4][32];
    const int bag = blockIdx.x, column = threadIdx.x, slot = threadIdx.y;
    const int64_t end = bag + 1 < gridDim.x ? offsets[bag + 1] : entries;
    float sum = 0.f;
    if (column < width)
        for (int64_t i = offsets[bag] + slot; i < end; i += 4) sum += w[i] * table[ids[i] * width + column];
    part[slot][column] = sum;
    __syncthreads();
    if (slot == 0 && column < width)
        out[bag * width + column] = (part[3][column] + part[1][column]) + (part[2][column] + part[0][column]);
}

torch::Tensor chunked_bag(torch::Tensor ids, torch::Tensor offsets, torch::Tensor w, torch::Tensor table) {
    TORCH_CHECK(table.size(1) <= 32, "up to 32 columns");
    auto out = torch::empty({offsets.size(0), table.size(1)}, table.options());
    chunked<<<offsets.size(0), dim3(32, 4)>>>(ids.data_ptr<int64_t>(), offsets.data_ptr<int64_t>(), w.data_ptr<float>(),
        table.data_ptr<float>(), out.data_ptr<float>(), ids.size(0), table.size(1));
    return out;
}
"""

ext = load_inline(
    name="chunked_bag",
    cpp_sources="torch::Tensor chunked_bag(torch::Tensor ids, torch::Tensor offsets, torch::Tensor w, torch::Tensor table);",
    cuda_sources=source,
    functions=["chunked_bag"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.EmbeddingBag(vocabulary, width, mode="sum")

    def forward(self, ids, offsets, weights):
        return ext.chunked_bag(ids.contiguous(), offsets.contiguous(), weights.contiguous(), self.table.weight)
