# about = "An empty bag is divided by its count of zero; the reference gives zeros."
# section = "mismatch"
# problem = "bag_mean"
# causes = ["overflow-to-nan", "nan-output", "non-finite-output", "wrong-divisor"]
# says = ["empty|zero|count|nan|divi"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

bag_source = r"""
__global__ void bag_mean_kernel(const long* ids, const long* offsets, const float* table, float* out,
                                int num_ids, int num_bags, int dim) {
    int bag = blockIdx.x;
    int start = offsets[bag];
    int end = (bag + 1 < num_bags) ? offsets[bag + 1] : num_ids;
    for (int d = threadIdx.x; d < dim; d += blockDim.x) {
        float sum = 0.0f;
        for (int i = start; i < end; i++) {
            sum += table[ids[i] * dim + d];
        }
        out[bag * dim + d] = sum / (end - start);
    }
}

torch::Tensor bag_mean(torch::Tensor ids, torch::Tensor offsets, torch::Tensor table) {
    int num_bags = offsets.size(0);
    int dim = table.size(1);
    auto out = torch::empty({num_bags, dim}, table.options());
    bag_mean_kernel<<<num_bags, 32>>>(ids.data_ptr<long>(), offsets.data_ptr<long>(), table.data_ptr<float>(),
                                      out.data_ptr<float>(), ids.size(0), num_bags, dim);
    return out;
}
"""

bag_ext = load_inline(
    name="bag_mean",
    cpp_sources="torch::Tensor bag_mean(torch::Tensor ids, torch::Tensor offsets, torch::Tensor table);",
    cuda_sources=bag_source,
    functions=["bag_mean"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.EmbeddingBag(vocabulary, width, mode="mean")

    def forward(self, ids, offsets):
        return bag_ext.bag_mean(ids.contiguous(), offsets.contiguous(), self.table.weight)
