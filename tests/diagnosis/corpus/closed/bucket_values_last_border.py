# about = "The search never looks at the last border: what lies above it falls into the bucket before the last."
# section = "mismatch"
# problem = "bucket_values"
# causes = ["last-element-left-out"]
# says = ["last|one too|border|short|end"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <tuple>
__global__ void search_kernel(const int64_t* __restrict__ borders, const int64_t* __restrict__ keys, int64_t* __restrict__ out,
                              int n, int rows, int cols) {
    extern __shared__ int64_t edge[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) edge[i] = borders[i];
    __syncthreads();
    int row = blockIdx.x;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        int64_t key = keys[row * cols + c];
        int lo = 0, hi = n - 1;
        while (lo < hi) {
            int mid = (lo + hi) >> 1;
            if (edge[mid] <= key) lo = mid + 1; else hi = mid;
        }
        out[row * cols + c] = lo;
    }
}

__global__ void look_up(const int64_t* bucket, const float* table, float* out, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) out[i] = table[bucket[i]];
}

std::tuple<torch::Tensor, torch::Tensor> digitise(torch::Tensor borders, torch::Tensor keys, torch::Tensor table) {
    int n = borders.numel(), rows = keys.size(0), cols = keys.size(1);
    auto bucket = torch::empty({rows, cols}, keys.options());
    auto value = torch::empty({rows, cols}, table.options());
    search_kernel<<<rows, 32, n * sizeof(int64_t)>>>(borders.data_ptr<int64_t>(), keys.data_ptr<int64_t>(), bucket.data_ptr<int64_t>(), n, rows, cols);
    look_up<<<2, 64>>>(bucket.data_ptr<int64_t>(), table.data_ptr<float>(), value.data_ptr<float>(), rows * cols);
    return std::make_tuple(bucket, value);
}
"""
ext = load_inline("digitise", cpp_sources="std::tuple<torch::Tensor, torch::Tensor> digitise(torch::Tensor borders, torch::Tensor keys, torch::Tensor table);", cuda_sources=SRC, functions=["digitise"])


class ModelNew(nn.Module):
    def forward(self, borders, keys, table):
        return tuple(ext.digitise(borders.contiguous(), keys.contiguous(), table.contiguous()))
