# about = "Cosines by a rotation carried along in double, the energy by a second kernel."
# section = "right"
# problem = "cosine_transform"

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

// No cosine in the inner loop: the angle grows by a fixed step, and a rotation carries cosine and sine along (in double).
__global__ void by_rotation(const float* x, float* y, int n) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    const float* row = x + blockIdx.y * n;
    if (k >= n) return;
    double step = 3.14159265358979323846 * k / n, ds = sin(step), dc = cos(step);
    double c = cos(step * 0.5), s = sin(step * 0.5), sum = 0;
    for (int i = 0; i < n; ++i) {
        sum += row[i] * c;
        double turned = c * dc - s * ds;
        s = s * dc + c * ds;
        c = turned;
    }
    y[blockIdx.y * n + k] = (float)(sum * sqrt((k ? 2.0 : 1.0) / n));
}

__global__ void upper_energy(const float* y, float* e, int n) {
    float sum = 0.f;
    for (int k = n / 2 + threadIdx.x; k < n; k += 32) sum = fmaf(y[blockIdx.x * n + k], y[blockIdx.x * n + k], sum);
    for (int o = 1; o < 32; o <<= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (threadIdx.x == 31) e[blockIdx.x] = sum;
}

std::tuple<torch::Tensor, torch::Tensor> transform(torch::Tensor x) {
    int rows = x.size(0), n = x.size(1);
    auto y = torch::empty_like(x), e = torch::empty({rows}, x.options());
    by_rotation<<<dim3((n + 63) / 64, rows), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    upper_energy<<<rows, 32>>>(y.data_ptr<float>(), e.data_ptr<float>(), n);
    return {y, e};
}
"""

DECLARATIONS = """
std::tuple<torch::Tensor, torch::Tensor> transform(torch::Tensor x);
"""

ext = load_inline(
    name="fused_transform",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["transform"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.transform(x.contiguous())
