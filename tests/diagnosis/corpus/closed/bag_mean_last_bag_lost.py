# about = "The last bag has no end of its own and stays empty: zeros."
# section = "mismatch"
# problem = "bag_mean"
# causes = ["lost-last-block", "last-element-left-out"]
# says = ["last|bag|end|row"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <cstdint>

// one thread per output element
__global__ void mean_of_bags(const int64_t* ids, const int64_t* offsets, const float* w, float* y, int bags, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= bags * width) return;
    int b = i / width, c = i % width;
    int64_t from = offsets[b];
    int64_t to = offsets[min(b + 1, bags - 1)];
    float total = 0.f;
    for (int64_t j = from; j < to; ++j) total += w[ids[j] * width + c];
    int64_t count = to - from;
    y[i] = count > 0 ? total / count : 0.f;
}

torch::Tensor mean_of_bags_cuda(torch::Tensor ids, torch::Tensor offsets, torch::Tensor w) {
    const int bags = offsets.numel(), width = w.size(1);
    auto y = torch::empty({bags, width}, w.options());
    const int n = bags * width;
    mean_of_bags<<<(n + 255) / 256, 256>>>(ids.data_ptr<int64_t>(), offsets.data_ptr<int64_t>(), w.data_ptr<float>(),
                                         y.data_ptr<float>(), bags, width);
    return y;
}
"""

ops = load_inline(
    name="mean_of_bags",
    cpp_sources="torch::Tensor mean_of_bags_cuda(torch::Tensor ids, torch::Tensor offsets, torch::Tensor w);",
    cuda_sources=SRC,
    functions=["mean_of_bags_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.EmbeddingBag(vocabulary, width, mode="mean")

    def forward(self, ids, offsets):
        return ops.mean_of_bags_cuda(ids, offsets, self.table.weight)
