# about = "The kernel itself is declared in cpp_sources, bound and called from Python."
# section = "binding"
# problem = "row_statistics"
# causes = ["kernel-bound-to-python"]
# says = ["__global__|kernel"]
# stage = ["build"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

stats_src = r"""
#include <torch/extension.h>
#include <cfloat>
#include <vector>

__global__ void stats_kernel(const float* x, float* mean_out, float* std_out, float* max_out, int cols) {
    const float* row = x + blockIdx.x * cols;
    float sum = 0.f, biggest = -FLT_MAX;
    for (int i = threadIdx.x; i < cols; i += 32) {
        sum += row[i];
        biggest = fmaxf(biggest, row[i]);
    }
    for (int o = 16; o > 0; o /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, o);
        biggest = fmaxf(biggest, __shfl_xor_sync(0xffffffff, biggest, o));
    }
    const float mean = sum / cols;
    float sq = 0.f;
    for (int i = threadIdx.x; i < cols; i += 32) {
        const float d = row[i] - mean;
        sq += d * d;
    }
    for (int o = 16; o > 0; o /= 2) sq += __shfl_xor_sync(0xffffffff, sq, o);
    if (threadIdx.x == 0) {
        mean_out[blockIdx.x] = mean;
        std_out[blockIdx.x] = sqrtf(sq / (cols - 1));
        max_out[blockIdx.x] = biggest;
    }
}

std::vector<torch::Tensor> row_stats(torch::Tensor x) {
    const int rows = x.size(0);
    auto mean = torch::empty({rows}, x.options());
    auto std = torch::empty({rows}, x.options());
    auto mx = torch::empty({rows}, x.options());
    stats_kernel<<<rows, 32>>>(x.data_ptr<float>(), mean.data_ptr<float>(), std.data_ptr<float>(), mx.data_ptr<float>(), x.size(1));
    return {mean, std, mx};
}
"""

stats = load_inline(name="row_stats_ext", cpp_sources="__global__ void stats_kernel(const float* x, float* mean_out, float* std_out, float* max_out, int cols);", cuda_sources=stats_src, functions=["stats_kernel"])


class ModelNew(nn.Module):
    def forward(self, x):
        mean, std, biggest = (x.new_empty(x.size(0)) for _ in range(3))
        stats.stats_kernel(x.contiguous(), mean, std, biggest, x.size(1))
        return mean, std, biggest
