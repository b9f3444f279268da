# about = "The maximum starts at zero with index zero."
# section = "mismatch"
# problem = "max_with_index"
# causes = ["reduction-start-value"]
# says = ["start|zero|initial|begin"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="max_index",
    cpp_sources="std::vector<torch::Tensor> max_index(torch::Tensor x);",
    cuda_sources=r"""
#include <vector>
__global__ void max_index_kernel(const float* x, float* values, int64_t* indices, int items, int columns) {
    int c = threadIdx.x;
    if (c >= columns) return;
    float best = 0.0f;
    int at = 0;
    const float* p = x + blockIdx.x * items * columns + c;
    for (int i = 0; i < items; ++i) {
        if (p[i * columns] > best) {
            best = p[i * columns];
            at = i;
        }
    }
    values[blockIdx.x * columns + c] = best;
    indices[blockIdx.x * columns + c] = at;
}

std::vector<torch::Tensor> max_index(torch::Tensor x) {
    auto values = torch::empty({x.size(0), x.size(2)}, x.options());
    auto indices = torch::empty({x.size(0), x.size(2)}, x.options().dtype(torch::kInt64));
    max_index_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), values.data_ptr<float>(), indices.data_ptr<int64_t>(), x.size(1), x.size(2));
    return {values, indices};
}
""",
    functions=["max_index"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        values, indices = ext.max_index(x.contiguous())
        return values, indices
