# about = "Searches the left bound: a key that equals a border falls into the bucket before."
# section = "mismatch"
# problem = "bucket_values"
# causes = ["search-side"]
# says = ["left|right|bound|equal|side"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>
#include <vector>

template <typename T>
__device__ int bound(const T* a, int n, T key) {
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (a[mid] < key) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

__global__ void bucketise(const int64_t* borders, int n, const int64_t* keys, const float* table, int64_t* bucket, float* value, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) {
        int b = bound<int64_t>(borders, n, keys[i]);
        bucket[i] = b;
        value[i] = table[b];
    }
}

std::vector<torch::Tensor> bucketise_values(torch::Tensor borders, torch::Tensor keys, torch::Tensor table) {
    auto bucket = torch::empty_like(keys);
    auto value = torch::empty(keys.sizes(), table.options());
    int total = keys.numel();
    bucketise<<<(total + 127) / 128, 128>>>(borders.data_ptr<int64_t>(), borders.size(0), keys.data_ptr<int64_t>(),
                                            table.data_ptr<float>(), bucket.data_ptr<int64_t>(), value.data_ptr<float>(), total);
    return {bucket, value};
}
"""
mod = load_inline(name="bucketise_values", cpp_sources="#include <vector>\nstd::vector<torch::Tensor> bucketise_values(torch::Tensor borders, torch::Tensor keys, torch::Tensor table);", cuda_sources=src, functions=["bucketise_values"])


class ModelNew(nn.Module):
    def forward(self, borders, keys, table):
        bucket, value = mod.bucketise_values(borders.contiguous(), keys.contiguous(), table.contiguous())
        return bucket, value
