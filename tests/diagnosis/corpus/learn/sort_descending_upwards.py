# about = "Sorted in ascending order."
# section = "mismatch"
# problem = "sort_descending"
# causes = ["sort-order"]
# says = ["ascend|descend|order|revers|small|direction"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_sort",
    cpp_sources="std::vector<torch::Tensor> row_sort(torch::Tensor x);",
    cuda_sources=r"""
#include <vector>
__global__ void rank_kernel(const float* x, float* values, int64_t* indices, int width) {
    extern __shared__ float row[];
    for (int j = threadIdx.x; j < width; j += blockDim.x) row[j] = x[blockIdx.x * width + j];
    __syncthreads();
    for (int j = threadIdx.x; j < width; j += blockDim.x) {
        float v = row[j];
        int rank = 0;
        for (int k = 0; k < width; ++k) rank += (row[k] < v) || (row[k] == v && k < j);
        values[blockIdx.x * width + rank] = v;
        indices[blockIdx.x * width + rank] = j;
    }
}

std::vector<torch::Tensor> row_sort(torch::Tensor x) {
    auto values = torch::empty_like(x);
    auto indices = torch::empty(x.sizes(), x.options().dtype(torch::kInt64));
    int width = x.size(1);
    rank_kernel<<<x.size(0), 64, width * sizeof(float)>>>(x.data_ptr<float>(), values.data_ptr<float>(), indices.data_ptr<int64_t>(), width);
    return {values, indices};
}
""",
    functions=["row_sort"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        values, indices = ext.row_sort(x.contiguous())
        return values, indices
