# about = "Right: no search, borders that are not larger are counted."
# section = "right"
# problem = "bucket_values"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <vector>
__global__ void counted(const int64_t* borders, const int64_t* keys, const float* table, int64_t* bucket, float* value, int n, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int64_t key = keys[i];
    int b = 0;
    #pragma unroll 4
    for (int j = n - 1; j >= 0; --j) b += borders[j] <= key ? 1 : 0;
    bucket[i] = b;
    value[i] = __ldg(table + b);
}

std::vector<torch::Tensor> count_borders(torch::Tensor borders, torch::Tensor keys, torch::Tensor table) {
    auto bucket = torch::empty_like(keys);
    auto value = torch::empty(keys.sizes(), table.options());
    counted<<<(keys.numel() + 95) / 96, 96>>>(borders.data_ptr<int64_t>(), keys.data_ptr<int64_t>(), table.data_ptr<float>(),
        bucket.data_ptr<int64_t>(), value.data_ptr<float>(), borders.numel(), keys.numel());
    return {bucket, value};
}
"""
ext = load_inline("count_borders", cpp_sources="std::vector<torch::Tensor> count_borders(torch::Tensor borders, torch::Tensor keys, torch::Tensor table);", cuda_sources=SRC, functions=["count_borders"])


class ModelNew(nn.Module):
    def forward(self, borders, keys, table):
        bucket, value = ext.count_borders(borders.contiguous(), keys.contiguous(), table.contiguous())
        return bucket, value
