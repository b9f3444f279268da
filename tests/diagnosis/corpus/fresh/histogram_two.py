# about = "Shares of the two bins are exchanged, and counts are not divided by the number of elements."
# section = "mismatch"
# problem = "soft_histogram"
# faults = [{causes = ["weights-swapped", "sign-error", "operands-swapped"], says = ["swap|exchang|weight|share|1 -|sign"]}, {causes = ["sum-for-mean", "wrong-divisor", "scale-missing", "operator-missing"], says = ["divis|divid|mean|sum|count|scale|factor|missing"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void soft_hist(const float* x, float* hist, int n, int bins, float low, float high) {
    extern __shared__ float local[];
    for (int b = threadIdx.x; b < bins; b += blockDim.x) local[b] = 0.0f;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float v = x[blockIdx.x * n + i];
        float place = (v - low) / (high - low) * bins - 0.5f;
        place = fminf(fmaxf(place, 0.0f), bins - 1.0f);
        int left = (int)place;
        float t = place - left;
        atomicAdd(&local[left], t);
        if (left + 1 < bins) atomicAdd(&local[left + 1], 1.0f - t);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += blockDim.x) hist[blockIdx.x * bins + b] = local[b];
}

torch::Tensor soft_histogram(torch::Tensor x, double low, double high, int64_t bins) {
    auto hist = torch::empty({x.size(0), bins}, x.options());
    soft_hist<<<x.size(0), 64, bins * sizeof(float)>>>(x.data_ptr<float>(), hist.data_ptr<float>(), x.size(1), bins, low, high);
    return hist;
}
"""

ext = load_inline("soft_histogram_module", ["torch::Tensor soft_histogram(torch::Tensor x, double low, double high, int64_t bins);"], [SOURCE], functions=["soft_histogram"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, low, high, bins):
        super().__init__()
        self.low, self.high, self.bins = low, high, bins

    def forward(self, x):
        return ext.soft_histogram(x.contiguous(), self.low, self.high, self.bins)
