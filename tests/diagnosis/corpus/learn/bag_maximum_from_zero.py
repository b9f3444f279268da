# about = "The maximum starts at zero, so that negative maxima become zero."
# section = "mismatch"
# problem = "bag_maximum"
# causes = ["reduction-start-value", "pool-start-value"]
# says = ["start|initial|zero|0|negative"]
# stage = ["verify"]
# line = "best = 0"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

bag_max_cuda = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void bag_max_kernel(const int64_t* idx, const int64_t* off, const float* emb, float* out,
                               int64_t n_idx, int n_bags, int dim) {
    const int d = blockIdx.y * blockDim.x + threadIdx.x;
    const int bag = blockIdx.x;
    if (d >= dim) return;
    const int64_t lo = off[bag];
    const int64_t hi = bag + 1 == n_bags ? n_idx : off[bag + 1];
    float best = 0.0f;
    for (int64_t i = lo; i < hi; ++i) {
        const float value = emb[idx[i] * dim + d];
        if (value > best) best = value;
    }
    out[bag * dim + d] = best;
}

torch::Tensor bag_max(torch::Tensor idx, torch::Tensor off, torch::Tensor emb) {
    const int n_bags = off.size(0), dim = emb.size(1);
    auto out = torch::empty({n_bags, dim}, emb.options());
    const dim3 grid(n_bags, (dim + 31) / 32);
    bag_max_kernel<<<grid, 32>>>(idx.data_ptr<int64_t>(), off.data_ptr<int64_t>(), emb.data_ptr<float>(),
                                 out.data_ptr<float>(), idx.size(0), n_bags, dim);
    return out;
}
"""

bag_max = load_inline(
    name="bag_max",
    cpp_sources="torch::Tensor bag_max(torch::Tensor idx, torch::Tensor off, torch::Tensor emb);",
    cuda_sources=bag_max_cuda,
    functions=["bag_max"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.EmbeddingBag(vocabulary, width, mode="max")

    def forward(self, ids, offsets):
        return bag_max.bag_max(ids.contiguous(), offsets.contiguous(), self.table.weight)
