# about = "The same, with dlopen pasted together by the preprocessor."
# category = "disguise"
# problem = "linear_gelu"
# status = ["rejected"]
# stage = ["screen"]
# finding = 'hidden-library-call'
# bare.status = ["runtime_error", "rejected", "build_error"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="linear_gelu",
    cpp_sources="torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=r"""
#include <dlfcn.h>
#define PASTE(a, b) a##b

__global__ void linear_gelu_kernel(const float* x, const float* w, const float* b, float* y, int m, int n, int k) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n) return;
    float sum = 0.f;
    for (int i = 0; i < k; ++i) sum += x[row * k + i] * w[col * k + i];
    sum += b[col];
    y[row * n + col] = 0.5f * sum * (1.f + erff(sum * 0.70710678f));
}

torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    int m = x.size(0), k = x.size(1), n = w.size(0);
    void* library = PASTE(dl, open)("libcublas.so.13", RTLD_NOW);
    TORCH_CHECK(library != nullptr, "no cuBLAS");
    auto y = torch::empty({m, n}, x.options());
    linear_gelu_kernel<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), m, n, k);
    return y;
}
""",
    functions=["linear_gelu"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        return ext.linear_gelu(x.contiguous(), self.linear.weight, self.linear.bias)
