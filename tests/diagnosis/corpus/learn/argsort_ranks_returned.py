# about = "Returns the rank of each element, which is the inverse of the permutation."
# section = "mismatch"
# problem = "argsort_stable"
# causes = ["inverse-permutation"]
# says = ["rank|inverse|permut|where"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

// counting sort of one column per block; keys are small
__global__ void counting(const int64_t* __restrict__ keys, int64_t* __restrict__ out, int n, int cols) {
    extern __shared__ int k[];
    const int col = blockIdx.x;
    for (int i = threadIdx.x; i < n; i += blockDim.x) k[i] = (int)keys[i * cols + col];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int smaller = 0, equal_before = 0;
        for (int j = 0; j < n; ++j) {
            smaller += k[j] < k[i] ? 1 : 0;
            equal_before += (k[j] == k[i] && j < i) ? 1 : 0;
        }
        out[i * cols + col] = smaller + equal_before;
    }
}

torch::Tensor order(torch::Tensor keys) {
    int n = keys.size(0), cols = keys.size(1);
    torch::Tensor out = torch::empty({n, cols}, keys.options());
    counting<<<cols, 64, n * sizeof(int)>>>(keys.data_ptr<int64_t>(), out.data_ptr<int64_t>(), n, cols);
    return out;
}
"""
order_ext = load_inline(name="order_ext", cpp_sources="torch::Tensor order(torch::Tensor keys);", cuda_sources=source, functions=["order"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, keys):
        return order_ext.order(keys.contiguous())
