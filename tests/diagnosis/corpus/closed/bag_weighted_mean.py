# about = "The weighted sum is divided by the number of entries of the bag."
# section = "mismatch"
# problem = "bag_weighted"
# causes = ["mean-for-sum", "wrong-divisor"]
# says = ["mean|divi|count|sum|average"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

bag_cuda = r"""
#define WARP 32

__global__ void bag_kernel(const int64_t* ids, const int64_t* offsets, const float* scale, const float* table,
                           float* out, int total, int bags, int dim) {
    int warp_in_block = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int bag = blockIdx.x * (blockDim.x / WARP) + warp_in_block;
    if (bag >= bags) return;
    int begin = (int)offsets[bag];
    int end = bag + 1 == bags ? total : (int)offsets[bag + 1];
    for (int d = 0; d < dim; ++d) {
        float part = 0.f;
        for (int i = begin + lane; i < end; i += WARP) part += scale[i] * table[ids[i] * dim + d];
        for (int o = WARP / 2; o > 0; o >>= 1) part += __shfl_down_sync(0xffffffff, part, o);
        if (lane == 0) out[bag * dim + d] = end > begin ? part / (float)(end - begin) : 0.f;
    }
}

torch::Tensor embedding_bag_weighted(torch::Tensor ids, torch::Tensor offsets, torch::Tensor scale, torch::Tensor table) {
    int bags = offsets.numel();
    auto out = torch::empty({bags, table.size(1)}, table.options());
    bag_kernel<<<(bags + 1) / 2, 64>>>(ids.data_ptr<int64_t>(), offsets.data_ptr<int64_t>(), scale.data_ptr<float>(),
        table.data_ptr<float>(), out.data_ptr<float>(), ids.numel(), bags, table.size(1));
    return out;
}
"""

bag_cpp = "torch::Tensor embedding_bag_weighted(torch::Tensor ids, torch::Tensor offsets, torch::Tensor scale, torch::Tensor table);"

bag_module = load_inline(name="bag_module", cpp_sources=bag_cpp, cuda_sources=bag_cuda, functions=["embedding_bag_weighted"])


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width):
        super(ModelNew, self).__init__()
        self.table = nn.EmbeddingBag(vocabulary, width, mode="sum")

    def forward(self, ids, offsets, weights):
        return bag_module.embedding_bag_weighted(ids, offsets, weights.contiguous(), self.table.weight)
