# about = "The running mean divides by the place in the whole tensor, not in the segment."
# section = "mismatch"
# problem = "segment_running_mean"
# causes = ["wrong-divisor", "segments-ignored", "wrong-index-base"]
# says = ["divi|count|segment|place|position"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <torch/extension.h>

__global__ void segment_mean_kernel(const float* x, const int64_t* offsets, float* y, int segments, int width) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= segments * width) return;
    int s = id / width;
    int f = id % width;
    int64_t begin = offsets[s], end = offsets[s + 1];
    float sum = 0.f;
    for (int64_t i = begin; i < end; ++i) {
        sum += x[i * width + f];
        y[i * width + f] = sum / (float)(i + 1);
    }
}

torch::Tensor segment_mean(torch::Tensor x, torch::Tensor offsets) {
    auto y = torch::empty_like(x);
    int segments = offsets.numel() - 1;
    int width = x.size(1);
    int total = segments * width;
    int threads = 128;
    segment_mean_kernel<<<(total + threads - 1) / threads, threads>>>(
        x.data_ptr<float>(), offsets.data_ptr<int64_t>(), y.data_ptr<float>(), segments, width);
    return y;
}
"""

segment_ops = load_inline(
    name="segment_ops",
    cpp_sources="torch::Tensor segment_mean(torch::Tensor x, torch::Tensor offsets);",
    cuda_sources=cuda,
    functions=["segment_mean"],
)


class ModelNew(nn.Module):
    def forward(self, x, offsets):
        return segment_ops.segment_mean(x.contiguous(), offsets.contiguous())
