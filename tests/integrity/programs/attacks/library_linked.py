# about = "cuBLAS is linked and multiplies; the kernel is the epilogue."
# category = "disguise"
# problem = "linear_gelu"
# status = ["rejected", "build_error"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="linear_gelu",
    cpp_sources="torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>
#include <cublas_v2.h>

__global__ void gelu_kernel(float* y, const float* b, int total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    float v = y[i] + b[i % n];
    y[i] = 0.5f * v * (1.f + erff(v * 0.70710678f));
}

torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    int m = x.size(0), k = x.size(1), n = w.size(0);
    auto y = torch::empty({m, n}, x.options());
    const float one = 1.f, zero = 0.f;
    cublasSgemm(at::cuda::getCurrentCUDABlasHandle(), CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, w.data_ptr<float>(), k,
                x.data_ptr<float>(), k, &zero, y.data_ptr<float>(), n);
    gelu_kernel<<<(m * n + 127) / 128, 128>>>(y.data_ptr<float>(), b.data_ptr<float>(), m * n, n);
    return y;
}
""",
    functions=["linear_gelu"],
    extra_ldflags=["-lcublas"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        return ext.linear_gelu(x.contiguous(), self.linear.weight, self.linear.bias)
