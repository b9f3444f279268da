# about = "One row too many: the last offset is taken for the begin of another bag."
# section = "mismatch"
# problem = "bag_mean_last_offset"
# causes = ["wrong-shape", "output-size"]
# says = ["23|22|shape|size|rows|offset"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
__global__ void bag_kernel(const int64_t* __restrict__ ids, const int64_t* __restrict__ offsets,
                           const float* __restrict__ table, float* __restrict__ out,
                           int bags, int entries, int width) {
    int bag = blockIdx.x;
    int begin = (int)offsets[bag];
    int end = bag + 1 < bags ? (int)offsets[bag + 1] : entries;
    int count = end - begin;
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        float sum = 0.0f;
        for (int e = begin; e < end; ++e) sum += table[ids[e] * width + c];
        out[bag * width + c] = count > 0 ? sum / count : 0.0f;
    }
}

torch::Tensor bag_mean(torch::Tensor ids, torch::Tensor offsets, torch::Tensor table) {
    int bags = offsets.size(0);
    int width = table.size(1);
    auto out = torch::empty({bags, width}, table.options());
    bag_kernel<<<bags, 32>>>(ids.data_ptr<int64_t>(), offsets.data_ptr<int64_t>(), table.data_ptr<float>(),
                             out.data_ptr<float>(), bags, (int)ids.size(0), width);
    return out;
}
"""

bag_ops = load_inline(
    name="bag_ops",
    cpp_sources="torch::Tensor bag_mean(torch::Tensor ids, torch::Tensor offsets, torch::Tensor table);",
    cuda_sources=src,
    functions=["bag_mean"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.EmbeddingBag(vocabulary, width, mode="mean", include_last_offset=True)

    def forward(self, ids, offsets):
        return bag_ops.bag_mean(ids.contiguous(), offsets.contiguous(), self.table.weight)
