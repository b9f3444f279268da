# about = "Only whole tiles of the inner dimension are summed, and the bias goes along the columns."
# section = "mismatch"
# problem = "matmul_both_transposed"
# faults = [{causes = ["lost-last-block", "lost-channels"], says = ["tile|last|tail|remain|partial"]}, {causes = ["bias-wrong-index"], says = ["bias"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#define TILE 8

__global__ void tiled(const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ bias, float* __restrict__ c,
                      int M, int N, int K) {
    __shared__ float as[TILE][TILE + 1];
    __shared__ float bs[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < K / TILE; ++t) {
        int ka = t * TILE + threadIdx.x;
        int kb = t * TILE + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = (row < M) ? a[ka * M + row] : 0.0f;
        bs[threadIdx.y][threadIdx.x] = (col < N) ? b[col * K + kb] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < TILE; ++k) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) c[row * N + col] = sum + bias[col];
}

torch::Tensor matmul_tt(torch::Tensor a, torch::Tensor b, torch::Tensor bias) {
    const int K = a.size(0), M = a.size(1), N = b.size(0);
    auto c = torch::empty({M, N}, a.options());
    dim3 threads(TILE, TILE);
    dim3 blocks((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
    tiled<<<blocks, threads>>>(a.data_ptr<float>(), b.data_ptr<float>(), bias.data_ptr<float>(), c.data_ptr<float>(), M, N, K);
    return c;
}
"""
tt = load_inline(name="matmul_tt", cpp_sources="torch::Tensor matmul_tt(torch::Tensor a, torch::Tensor b, torch::Tensor bias);", cuda_sources=source, functions=["matmul_tt"])


class ModelNew(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(rows))

    def forward(self, a, b):
        return tt.matmul_tt(a.contiguous(), b.contiguous(), self.bias)
