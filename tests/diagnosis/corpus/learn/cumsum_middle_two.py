# about = "Exclusive, and every batch begins with the sum of the one before it."
# section = "mismatch"
# problem = "cumsum_middle"
# faults = [{causes = ["scan-exclusive", "scan-off-by-one"], says = ["exclusive"]}, {causes = ["scan-not-reset", "scan-restarts"], says = ["carr|reset|earlier|previous|batch|row"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

_cuda = r"""
#include <ATen/cuda/CUDAContext.h>

template <int COLS>
__global__ void column_prefix(const float* __restrict__ src, float* __restrict__ dst,
                              int batch, int length, int width) {
    const int col = blockIdx.x * COLS + threadIdx.x;
    if (col >= width) return;
    float total = 0.f;
    for (int b = 0; b < batch; ++b) {
        const float* s = src + (size_t)b * length * width + col;
        float* d = dst + (size_t)b * length * width + col;
        for (int t = 0; t < length; ++t) {
            const float value = s[(size_t)t * width];
            d[(size_t)t * width] = total;
            total += value;
        }
    }
}

at::Tensor prefix(const at::Tensor& x) {
    auto y = at::empty(x.sizes(), x.options());
    const int width = x.size(2);
    constexpr int cols = 64;
    column_prefix<cols><<<(width + cols - 1) / cols, cols, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1), width);
    return y;
}
"""

_ext = load_inline(
    name="column_prefix",
    cpp_sources="at::Tensor prefix(const at::Tensor& x);",
    cuda_sources=_cuda,
    functions=["prefix"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return _ext.prefix(x.contiguous())
