# about = "A thread per pixel walks over the channels with the squares of the window in a ring; exp2 of log2 for the power."
# section = "right"
# problem = "response_norm"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

lrn_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

constexpr int kMost = 16;

__global__ void lrn_kernel(const float* __restrict__ x, float* __restrict__ y, int batch, int channels, int area,
                           int size, float alpha, float beta, float base) {
    const int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= batch * area) return;
    const size_t first = (size_t)(id / area) * channels * area + id % area;
    const int after = (size - 1) / 2;
    float ring[kMost];
    for (int k = 0; k < size; ++k) ring[k] = 0.f;
    for (int c = -after; c < channels; ++c) {
        const int ahead = c + after;
        float v = ahead < channels ? x[first + (size_t)ahead * area] : 0.f;
        ring[ahead % size] = v * v;
        if (c < 0) continue;
        float sum = 0.f;
        for (int k = 0; k < size; ++k) sum += ring[k];
        const float d = fmaf(alpha / size, sum, base);
        y[first + (size_t)c * area] = x[first + (size_t)c * area] * exp2f(-beta * log2f(d));
    }
}

torch::Tensor lrn(torch::Tensor x, int64_t size, double alpha, double beta, double base) {
    TORCH_CHECK(size <= kMost, "window too large");
    auto y = torch::empty_like(x);
    const int area = x.size(2) * x.size(3), columns = x.size(0) * area;
    lrn_kernel<<<(columns + 31) / 32, 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1), area, size, alpha, beta, base);
    return y;
}
"""

lrn = load_inline(
    name="lrn_ring",
    cpp_sources="torch::Tensor lrn(torch::Tensor x, int64_t size, double alpha, double beta, double base);",
    cuda_sources=lrn_source,
    functions=["lrn"],
)


class ModelNew(nn.Module):
    def __init__(self, size, alpha, beta, base):
        super().__init__()
        self.arguments = (size, alpha, beta, base)

    def forward(self, x):
        return lrn.lrn(x.contiguous(), *self.arguments)
