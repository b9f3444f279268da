# about = "The sum of the neighbours' squares is not divided by the size of the window."
# section = "mismatch"
# problem = "response_norm"
# causes = ["wrong-divisor", "sum-for-mean", "pool-divisor", "scale-missing"]
# says = ["divi|sum|mean|count|size|factor|scale"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

lrn_cpp_source = (
    "torch::Tensor lrn_cuda(torch::Tensor x, int64_t size, double alpha, double beta, double base);"
)

lrn_source = """
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void lrn_kernel(const float* x, float* y, int N, int C, int HW, int size, float alpha, float beta,
                           float base) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total = N * C * HW;
    if (idx < total) {
        int hw = idx % HW;
        int c = (idx / HW) % C;
        int n = idx / (HW * C);
        int c_start = max(c - size / 2, 0);
        int c_end = min(c + (size - 1) / 2, C - 1);
        float acc = 0.0f;
        for (int i = c_start; i <= c_end; i++) {
            float v = x[(n * C + i) * HW + hw];
            acc += v * v;
        }
        float denom = powf(base + alpha * acc, beta);
        y[idx] = x[idx] / denom;
    }
}

torch::Tensor lrn_cuda(torch::Tensor x, int64_t size, double alpha, double beta, double base) {
    auto y = torch::empty_like(x);
    int N = x.size(0);
    int C = x.size(1);
    int HW = x.numel() / (N * C);
    int total = x.numel();
    const int block_size = 256;
    const int num_blocks = (total + block_size - 1) / block_size;
    lrn_kernel<<<num_blocks, block_size>>>(x.data_ptr<float>(), y.data_ptr<float>(), N, C, HW, size, alpha, beta,
                                           base);
    return y;
}
"""

lrn = load_inline(
    name="lrn",
    cpp_sources=lrn_cpp_source,
    cuda_sources=lrn_source,
    functions=["lrn_cuda"],
    verbose=True,
    extra_cflags=[""],
    extra_ldflags=[""],
)


class ModelNew(nn.Module):
    def __init__(self, size, alpha, beta, base):
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.base = base
        self.lrn = lrn

    def forward(self, x):
        return self.lrn.lrn_cuda(x.contiguous(), self.size, self.alpha, self.beta, self.base)
