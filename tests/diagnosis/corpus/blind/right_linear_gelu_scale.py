# about = "Right in everything."
# section = "right"
# problem = "linear_gelu_scale"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

fused_source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>
#include <cuda_runtime.h>

#define TILE 16

__device__ float gelu(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f)); }

__global__ void linear_gelu_kernel(const float* A, const float* Wt, const float* bias, float* out,
                                   int M, int N, int K, float factor) {
    __shared__ float As[TILE][TILE];
    __shared__ float Ws[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    float acc = 0.0f;
    for (int t = 0; t < (K + TILE - 1) / TILE; ++t) {
        int ka = t * TILE + threadIdx.x;
        int kw = t * TILE + threadIdx.y;
        As[threadIdx.y][threadIdx.x] = (row < M && ka < K) ? A[row * K + ka] : 0.0f;
        Ws[threadIdx.y][threadIdx.x] = (col < N && kw < K) ? Wt[col * K + kw] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; ++k) acc += As[threadIdx.y][k] * Ws[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) {
        out[row * N + col] = gelu(acc + bias[col]) * factor;
    }
}

torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double factor) {
    int M = x.size(0), K = x.size(1), N = weight.size(0);
    auto out = torch::empty({M, N}, x.options());
    dim3 block(TILE, TILE);
    dim3 grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
    linear_gelu_kernel<<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                                        out.data_ptr<float>(), M, N, K, (float)factor);
    return out;
}
"""

fused_cpp = "torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double factor);"

fused = load_inline(name="linear_gelu_fused", cpp_sources=fused_cpp, cuda_sources=fused_source, functions=["linear_gelu"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, factor):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.factor = factor

    def forward(self, x):
        return fused.linear_gelu(x.contiguous(), self.linear.weight, self.linear.bias, self.factor)
