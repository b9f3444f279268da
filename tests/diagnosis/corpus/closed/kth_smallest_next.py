# about = "k counts from zero: the next larger value is returned."
# section = "mismatch"
# problem = "kth_smallest"
# causes = ["wrong-rank"]
# says = ["rank|k-th|kth|k |off by one|next|neighbo"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="kth",
    cpp_sources="std::vector<torch::Tensor> kth(torch::Tensor x, int k);",
    cuda_sources=r"""
#include <vector>
__global__ void kth_kernel(const float* x, float* values, int64_t* indices, int items, int columns, int k) {
    int b = blockIdx.x / columns, c = blockIdx.x % columns;
    const float* p = x + b * items * columns + c;
    for (int i = threadIdx.x; i < items; i += blockDim.x) {
        float v = p[i * columns];
        int before = 0;
        for (int j = 0; j < items; ++j) {
            float o = p[j * columns];
            before += o < v || (o == v && j < i);
        }
        if (before == k) {
            values[blockIdx.x] = v;
            indices[blockIdx.x] = i;
        }
    }
}

std::vector<torch::Tensor> kth(torch::Tensor x, int k) {
    auto values = torch::empty({x.size(0), x.size(2)}, x.options());
    auto indices = torch::empty({x.size(0), x.size(2)}, x.options().dtype(torch::kInt64));
    kth_kernel<<<x.size(0) * x.size(2), 32>>>(x.data_ptr<float>(), values.data_ptr<float>(), indices.data_ptr<int64_t>(),
                                              x.size(1), x.size(2), k);
    return {values, indices};
}
""",
    functions=["kth"],
)


class ModelNew(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        values, indices = ext.kth(x.contiguous(), self.k)
        return values, indices
