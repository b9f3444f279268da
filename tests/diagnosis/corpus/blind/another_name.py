# about = "The class is called CumsumCUDA."
# section = "binding"
# problem = "cumsum"
# causes = ["no-model-new"]
# says = ["ModelNew"]
# stage = ["screen", "build", "run"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

scan_cuda = r"""
#include <torch/extension.h>

#define TILE 128

// One block per row. Hillis-Steele inside a tile, the running total carried from tile to tile.
__global__ void cumsum_kernel(const float* x, float* y, int cols) {
    __shared__ float temp[TILE];
    const float* xr = x + blockIdx.x * cols;
    float* yr = y + blockIdx.x * cols;
    float carry = 0.0f;
    for (int base = 0; base < cols; base += TILE) {
        int i = base + threadIdx.x;
        temp[threadIdx.x] = (i < cols) ? xr[i] : 0.0f;
        __syncthreads();
        for (int offset = 1; offset < TILE; offset *= 2) {
            float add = 0.0f;
            if (threadIdx.x >= offset) add = temp[threadIdx.x - offset];
            __syncthreads();
            temp[threadIdx.x] += add;
            __syncthreads();
        }
        if (i < cols) yr[i] = carry + temp[threadIdx.x];
        carry += temp[TILE - 1];
        __syncthreads();
    }
}

torch::Tensor row_cumsum(torch::Tensor x) {
    auto y = torch::empty_like(x);
    cumsum_kernel<<<x.size(0), TILE>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""

scan = load_inline("scan_rows", "torch::Tensor row_cumsum(torch::Tensor x);", scan_cuda, functions=["row_cumsum"])


class CumsumCUDA(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return scan.row_cumsum(x.contiguous())
