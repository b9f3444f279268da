# about = "The last eight of the forty values of a row are not scattered, and the count leaves out what stood there."
# section = "mismatch"
# problem = "scatter_mean"
# faults = [{causes = ["lost-last-block", "lost-lanes", "last-element-left-out"], says = ["last|tail|lane|remain|32"]}, {causes = ["wrong-divisor", "base-ignored"], says = ["divis|divid|count"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>

__global__ void accumulate(const int64_t* index, const float* source, float* sum, float* count, int cols, int values) {
    int row = blockIdx.x;
    for (int step = 0; step < values / 32; ++step) {
        int i = row * values + step * 32 + threadIdx.x;
        int64_t c = index[i];
        atomicAdd(sum + row * cols + c, source[i]);
        atomicAdd(count + row * cols + c, 1.0f);
    }
}

__global__ void finish(const float* base, const float* sum, const float* count, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = (base[i] + sum[i]) / fmaxf(count[i], 1.0f);
}

torch::Tensor scatter_average(torch::Tensor base, torch::Tensor index, torch::Tensor source) {
    auto sum = torch::zeros_like(base);
    auto count = torch::zeros_like(base);
    auto out = torch::empty_like(base);
    accumulate<<<base.size(0), 32>>>(index.data_ptr<int64_t>(), source.data_ptr<float>(), sum.data_ptr<float>(), count.data_ptr<float>(), base.size(1), index.size(1));
    int n = base.numel();
    finish<<<(n + 127) / 128, 128>>>(base.data_ptr<float>(), sum.data_ptr<float>(), count.data_ptr<float>(), out.data_ptr<float>(), n);
    return out;
}
"""
sc = load_inline(name="scatter_average", cpp_sources="torch::Tensor scatter_average(torch::Tensor base, torch::Tensor index, torch::Tensor source);", cuda_sources=src, functions=["scatter_average"])


class ModelNew(nn.Module):
    def forward(self, base, index, source):
        return sc.scatter_average(base.contiguous(), index.contiguous(), source.contiguous())
