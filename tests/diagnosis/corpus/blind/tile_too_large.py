# about = "Two tiles of 128 x 129 floats: more shared memory than a block may have."
# section = "build"
# problem = "matmul_transposed"
# causes = ["shared-memory-limit"]
# says = ["shared"]
# stage = ["build", "run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>
#define T 128

__global__ void matmul_at_b(const float* a, const float* b, float* c, int K, int M, int N) {
    __shared__ float sa[T][T + 1];
    __shared__ float sb[T][T + 1];
    const int m = blockIdx.y * T + threadIdx.y;
    const int n = blockIdx.x * T + threadIdx.x;
    float sum = 0.f;
    for (int k0 = 0; k0 < K; k0 += T) {
        const int mk = blockIdx.y * T + threadIdx.x;
        sa[threadIdx.y][threadIdx.x] = (k0 + threadIdx.y < K && mk < M) ? a[(k0 + threadIdx.y) * M + mk] : 0.f;
        sb[threadIdx.y][threadIdx.x] = (k0 + threadIdx.y < K && n < N) ? b[(k0 + threadIdx.y) * N + n] : 0.f;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < T; ++k) sum += sa[k][threadIdx.y] * sb[k][threadIdx.x];
        __syncthreads();
    }
    if (m < M && n < N) c[m * N + n] = sum;
}

torch::Tensor at_b(torch::Tensor a, torch::Tensor b) {
    const int K = a.size(0), M = a.size(1), N = b.size(1);
    auto c = torch::empty({M, N}, a.options());
    dim3 threads(8, 8);
    dim3 blocks((N + T - 1) / T, (M + T - 1) / T);
    matmul_at_b<<<blocks, threads>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), K, M, N);
    return c;
}
"""
gemm = load_inline(name="gemm_at_b", cpp_sources="torch::Tensor at_b(torch::Tensor a, torch::Tensor b);", cuda_sources=src, functions=["at_b"])


class ModelNew(nn.Module):
    def forward(self, a, b):
        return gemm.at_b(a.contiguous(), b.contiguous())
