# about = "Right: the inner dimension is split over blocks into scratch memory, a second kernel adds up."
# section = "right"
# problem = "matmul_both_transposed"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#define PARTS 3

__global__ void part_kernel(const float* a, const float* b, float* scratch, int M, int N, int K) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= M * N) return;
    int m = i / N, n = i % N;
    int each = (K + PARTS - 1) / PARTS;
    int first = blockIdx.y * each, last = min(K, first + each);
    float even = 0.f, odd = 0.f;
    for (int k = first; k < last; k += 2) {
        even = fmaf(a[k * M + m], b[n * K + k], even);
        if (k + 1 < last) odd = fmaf(a[(k + 1) * M + m], b[n * K + k + 1], odd);
    }
    scratch[blockIdx.y * M * N + i] = even + odd;
}

__global__ void add_kernel(const float* scratch, const float* bias, float* y, int M, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= M * N) return;
    float s = bias[i / N];
    for (int p = 0; p < PARTS; ++p) s += scratch[p * M * N + i];
    y[i] = s;
}

torch::Tensor split(torch::Tensor a, torch::Tensor b, torch::Tensor bias) {
    int K = a.size(0), M = a.size(1), N = b.size(0);
    auto scratch = torch::empty({PARTS, M, N}, a.options());
    auto y = torch::empty({M, N}, a.options());
    dim3 grid((M * N + 127) / 128, PARTS);
    part_kernel<<<grid, 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), scratch.data_ptr<float>(), M, N, K);
    add_kernel<<<(M * N + 127) / 128, 128>>>(scratch.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), M, N);
    return y;
}
"""
ext = load_inline("split_inner", cpp_sources="torch::Tensor split(torch::Tensor a, torch::Tensor b, torch::Tensor bias);", cuda_sources=SRC, functions=["split"])


class ModelNew(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(rows))

    def forward(self, a, b):
        return ext.split(a.contiguous(), b.contiguous(), self.bias)
