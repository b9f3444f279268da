# about = "A tiled product for a shipped reference."
# category = "structure"
# problem = "level1/matmul"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
constexpr int TILE = 16;

__global__ void matmul_kernel(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float as[TILE][TILE], bs[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.f;
    for (int start = 0; start < k; start += TILE) {
        int at = start + threadIdx.x, below = start + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = row < m && at < k ? a[row * k + at] : 0.f;
        bs[threadIdx.y][threadIdx.x] = below < k && col < n ? b[below * n + col] : 0.f;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}

torch::Tensor matmul(torch::Tensor a, torch::Tensor b) {
    int m = a.size(0), k = a.size(1), n = b.size(1);
    auto c = torch::empty({m, n}, a.options());
    matmul_kernel<<<dim3((n + TILE - 1) / TILE, (m + TILE - 1) / TILE), dim3(TILE, TILE)>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), m, n, k);
    return c;
}
"""
module = load_inline(
    "matmul", ["torch::Tensor matmul(torch::Tensor a, torch::Tensor b);"], [SOURCE], functions=["matmul"]
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return module.matmul(a.contiguous(), b.contiguous())
