# about = "A right answer: the inner dimension in three parts, whose sums a second kernel adds."
# section = "right"
# problem = "heads_projection"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="heads_in_parts",
    cpp_sources="torch::Tensor project(torch::Tensor x, torch::Tensor weight);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

constexpr int PARTS = 3;

__global__ void part_kernel(const float* x, const float* weight, float* parts, int total, int rows, int width,
                            int heads, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, part = blockIdx.y;
    if (i >= total) return;
    int e = i % size, n = i / size % rows, h = i / size / rows % heads, b = i / size / rows / heads;
    int begin = part * width / PARTS, end = (part + 1) * width / PARTS;
    float sum = 0.f;
    for (int d = end - 1; d >= begin; --d)
        sum = fmaf(x[(b * rows + n) * width + d], __ldg(weight + (h * width + d) * size + e), sum);
    parts[(long)part * total + i] = sum;
}

__global__ void add_kernel(const float* parts, float* y, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        float sum = 0.f;
        for (int part = PARTS - 1; part >= 0; --part) sum += parts[(long)part * total + i];
        y[i] = sum;
    }
}

torch::Tensor project(torch::Tensor x, torch::Tensor weight) {
    auto stream = at::cuda::getCurrentCUDAStream();
    int batch = x.size(0), rows = x.size(1), width = x.size(2), heads = weight.size(0), size = weight.size(2);
    auto y = torch::empty({batch, heads, rows, size}, x.options());
    int total = y.numel();
    auto parts = torch::empty({PARTS, total}, x.options());
    part_kernel<<<dim3((total + 95) / 96, PARTS), 96, 0, stream>>>(x.data_ptr<float>(), weight.data_ptr<float>(),
        parts.data_ptr<float>(), total, rows, width, heads, size);
    add_kernel<<<3, 128, 0, stream>>>(parts.data_ptr<float>(), y.data_ptr<float>(), total);
    return y;
}
""",
    functions=["project"],
)


class ModelNew(nn.Module):
    def __init__(self, heads, width, head_size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, width, head_size) * 0.3)

    def forward(self, x):
        return ext.project(x.contiguous(), self.weight)
