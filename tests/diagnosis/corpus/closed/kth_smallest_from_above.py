# about = "Counts from the largest value down, and the index starts at one."
# section = "mismatch"
# problem = "kth_smallest"
# faults = [{causes = ["sort-order", "wrong-rank"], says = ["larg|descend|order|revers|small"]}, {causes = ["index-off-by-one"], says = ["ind|off by one|one too"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <torch/extension.h>
#include <vector>

__global__ void select_kernel(const float* x, float* values, int64_t* indices, int items, int columns, int k, int total) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= total) return;
    const float* p = x + (t / columns) * items * columns + t % columns;
    float limit = INFINITY;
    int at = -1;
    for (int round = 0; round < k; ++round) {
        float best = -INFINITY;
        int where = -1;
        for (int i = 0; i < items; ++i) {
            float v = p[i * columns];
            bool open = v < limit || (v == limit && i > at);
            if (open && v > best) { best = v; where = i; }
        }
        limit = best;
        at = where;
    }
    values[t] = limit;
    indices[t] = at + 1;
}

std::vector<torch::Tensor> select_forward(torch::Tensor x, int64_t k) {
    int batch = x.size(0), columns = x.size(2), total = batch * columns;
    auto values = torch::empty({batch, columns}, x.options());
    auto indices = torch::empty({batch, columns}, x.options().dtype(torch::kInt64));
    select_kernel<<<(total + 63) / 64, 64>>>(x.data_ptr<float>(), values.data_ptr<float>(), indices.data_ptr<int64_t>(), x.size(1), columns, k, total);
    return {values, indices};
}
"""
sel = load_inline(name="select_kth", cpp_sources="#include <vector>\nstd::vector<torch::Tensor> select_forward(torch::Tensor x, int64_t k);", cuda_sources=cuda, functions=["select_forward"])


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        values, indices = sel.select_forward(x.contiguous(), self.k)
        return values, indices
