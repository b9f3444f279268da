# about = "Reads from the place where an element goes, in place of writing there: the inverse permutation."
# section = "mismatch"
# problem = "sort_rows_by_key"
# causes = ["inverse-permutation"]
# says = ["permut|invers|rank|goes|from|destination|scatter|gather"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

sort_source = r"""
#include <torch/extension.h>

// rank[i] = number of elements that are placed in front of element i
__global__ void rank_kernel(const float* __restrict__ keys, int* __restrict__ rank, int length) {
    extern __shared__ float row[];
    const int b = blockIdx.x;
    for (int i = threadIdx.x; i < length; i += blockDim.x) row[i] = keys[b * length + i];
    __syncthreads();
    for (int i = threadIdx.x; i < length; i += blockDim.x) {
        const float mine = row[i];
        int r = 0;
        for (int j = 0; j < length; ++j) {
            if (row[j] > mine || (row[j] == mine && j < i)) ++r;
        }
        rank[b * length + i] = r;
    }
}

__global__ void move_rows_kernel(const float* __restrict__ features, const int* __restrict__ rank,
                                 float* __restrict__ out, int length, int width, int total) {
    const int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= total) return;
    const int w = idx % width;
    const int i = (idx / width) % length;
    const int b = idx / (width * length);
    const int r = rank[b * length + i];
    out[idx] = features[(b * length + r) * width + w];
}

torch::Tensor sort_rows(torch::Tensor keys, torch::Tensor features) {
    const int batch = keys.size(0), length = keys.size(1), width = features.size(2);
    auto rank = torch::empty({batch, length}, keys.options().dtype(torch::kInt32));
    auto out = torch::empty_like(features);
    rank_kernel<<<batch, 64, length * sizeof(float)>>>(keys.data_ptr<float>(), rank.data_ptr<int>(), length);
    const int total = batch * length * width;
    move_rows_kernel<<<(total + 255) / 256, 256>>>(features.data_ptr<float>(), rank.data_ptr<int>(),
                                                   out.data_ptr<float>(), length, width, total);
    return out;
}
"""

sorter = load_inline(
    name="sort_rows_ext",
    cpp_sources="torch::Tensor sort_rows(torch::Tensor keys, torch::Tensor features);",
    cuda_sources=sort_source,
    functions=["sort_rows"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, keys, features):
        return sorter.sort_rows(keys.contiguous(), features.contiguous())
