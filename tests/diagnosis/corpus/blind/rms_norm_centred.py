# about = "Subtracts the mean first, as LayerNorm does."
# section = "mismatch"
# problem = "rms_norm"
# causes = ["mean-subtracted"]
# says = ["mean"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp = "torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, float eps);"
cuda = r"""
#include <torch/extension.h>

// One warp per row, four rows per block.
__global__ void rms_norm_kernel(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                                const int rows, const int n, const float eps) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const float* xr = x + row * n;
    float mean = 0.0f;
    for (int i = threadIdx.x; i < n; i += 32) mean += xr[i];
    for (int o = 16; o > 0; o /= 2) mean += __shfl_xor_sync(0xffffffffu, mean, o);
    mean /= n;
    float acc = 0.0f;
    for (int i = threadIdx.x; i < n; i += 32) {
        acc += (xr[i] - mean) * (xr[i] - mean);
    }
    #pragma unroll
    for (int o = 16; o > 0; o /= 2) acc += __shfl_xor_sync(0xffffffffu, acc, o);
    const float inv = rsqrtf(acc / n + eps);
    for (int i = threadIdx.x; i < n; i += 32) {
        y[row * n + i] = (xr[i] - mean) * inv * w[i];
    }
}

torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, float eps) {
    const int rows = x.size(0);
    const int n = x.size(1);
    auto y = torch::zeros_like(x);
    dim3 block(32, 4);
    dim3 grid((rows + 3) / 4);
    rms_norm_kernel<<<grid, block>>>(x.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), rows, n, eps);
    return y;
}
"""
rms = load_inline(name="rms", cpp_sources=cpp, cuda_sources=cuda, functions=["rms_norm"])


class ModelNew(nn.Module):
    def __init__(self, hidden: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms.rms_norm(x.contiguous(), self.weight, self.eps)
