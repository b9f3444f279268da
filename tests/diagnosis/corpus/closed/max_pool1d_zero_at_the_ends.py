# about = "The padding takes part as zero."
# section = "mismatch"
# problem = "max_pool1d"
# causes = ["pool-start-value", "reduction-start-value", "padding-mode", "wrong-fill-value"]
# says = ["zero|padding| 0"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

maxpool1d_src = r"""
#include <torch/extension.h>

#define TILE 32

__global__ void maxpool1d_kernel(const float* __restrict__ x, float* __restrict__ y, int len, int out_len, int k,
                                 int stride, int pad) {
    extern __shared__ float window[];
    const int line = blockIdx.y;
    const int o0 = blockIdx.x * TILE;
    const int span = (TILE - 1) * stride + k;
    const int start = o0 * stride - pad;
    for (int i = threadIdx.x; i < span; i += blockDim.x) {
        int p = start + i;
        window[i] = (p >= 0 && p < len) ? x[line * len + p] : 0.0f;
    }
    __syncthreads();
    int o = o0 + threadIdx.x;
    if (o < out_len) {
        float best = window[threadIdx.x * stride];
        for (int j = 1; j < k; ++j) best = fmaxf(best, window[threadIdx.x * stride + j]);
        y[line * out_len + o] = best;
    }
}

torch::Tensor maxpool1d(torch::Tensor x, int k, int stride, int pad) {
    int len = x.size(2);
    int out_len = (len + 2 * pad - k) / stride + 1;
    auto y = torch::empty({x.size(0), x.size(1), out_len}, x.options());
    dim3 grid((out_len + TILE - 1) / TILE, x.size(0) * x.size(1));
    size_t bytes = ((TILE - 1) * stride + k) * sizeof(float);
    maxpool1d_kernel<<<grid, TILE, bytes>>>(x.data_ptr<float>(), y.data_ptr<float>(), len, out_len, k, stride, pad);
    return y;
}
"""

maxpool1d_cpp = "torch::Tensor maxpool1d(torch::Tensor x, int k, int stride, int pad);"

maxpool1d = load_inline("maxpool1d", cpp_sources=maxpool1d_cpp, cuda_sources=maxpool1d_src, functions=["maxpool1d"])


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.args = (kernel_size, stride, padding)

    def forward(self, x):
        return maxpool1d.maxpool1d(x.contiguous(), *self.args)
