# about = "Odd-even transposition with half of the passes that a row needs."
# section = "mismatch"
# problem = "sort_descending"
# causes = ["not-sorted"]
# says = ["sorted|order|pass|early|round"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>
#include <tuple>

// odd-even transposition sort of one row per block
__global__ void transposition_sort(const float* __restrict__ x, float* __restrict__ v, int64_t* __restrict__ ix, int n) {
    extern __shared__ char raw[];
    float* key = reinterpret_cast<float*>(raw);
    int* src = reinterpret_cast<int*>(key + n);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        key[i] = x[blockIdx.x * n + i];
        src[i] = i;
    }
    __syncthreads();
    for (int pass = 0; pass < (n + 1) / 2; ++pass) {
        for (int i = 2 * threadIdx.x + (pass & 1); i + 1 < n; i += 2 * blockDim.x) {
            if (key[i] < key[i + 1]) {
                float k = key[i]; key[i] = key[i + 1]; key[i + 1] = k;
                int s = src[i]; src[i] = src[i + 1]; src[i + 1] = s;
            }
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        v[blockIdx.x * n + i] = key[i];
        ix[blockIdx.x * n + i] = src[i];
    }
}

std::tuple<torch::Tensor, torch::Tensor> sort_rows(torch::Tensor x) {
    int rows = x.size(0), n = x.size(1);
    auto v = torch::empty({rows, n}, x.options());
    auto ix = torch::empty({rows, n}, x.options().dtype(torch::kLong));
    transposition_sort<<<rows, 64, n * 8>>>(x.data_ptr<float>(), v.data_ptr<float>(), ix.data_ptr<int64_t>(), n);
    return {v, ix};
}
"""
sorter = load_inline(name="sort_rows", cpp_sources="#include <tuple>\nstd::tuple<torch::Tensor, torch::Tensor> sort_rows(torch::Tensor x);", cuda_sources=src, functions=["sort_rows"])


class ModelNew(nn.Module):
    def forward(self, x):
        v, ix = sorter.sort_rows(x.contiguous())
        return v, ix
