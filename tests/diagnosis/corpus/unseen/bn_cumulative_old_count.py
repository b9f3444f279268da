# about = "The share of this batch is one over the count of batches before it."
# section = "mismatch"
# problem = "bn_cumulative"
# causes = ["wrong-decay", "state-order", "wrong-divisor"]
# says = ["decay|momentum|share|count|order|update|divi|before|factor"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

bn_source = r"""
#include <torch/extension.h>
#include <vector>
#define T 64

__global__ void batch_norm_kernel(const float* x, const float* weight, const float* bias, float* mean_state,
                                  float* var_state, const float* seen, float* y, int batch, int channels, int area,
                                  float eps) {
    __shared__ float s1[T];
    __shared__ float s2[T];
    int c = blockIdx.x;
    int count = batch * area;
    float sum = 0;
    for (int i = threadIdx.x; i < count; i += T) sum += x[(i / area * channels + c) * area + i % area];
    s1[threadIdx.x] = sum;
    __syncthreads();
    for (int k = T / 2; k > 0; k /= 2) {
        if (threadIdx.x < k) s1[threadIdx.x] += s1[threadIdx.x + k];
        __syncthreads();
    }
    float mean = s1[0] / count;
    float sq = 0;
    for (int i = threadIdx.x; i < count; i += T) {
        float d = x[(i / area * channels + c) * area + i % area] - mean;
        sq += d * d;
    }
    s2[threadIdx.x] = sq;
    __syncthreads();
    for (int k = T / 2; k > 0; k /= 2) {
        if (threadIdx.x < k) s2[threadIdx.x] += s2[threadIdx.x + k];
        __syncthreads();
    }
    float inv = rsqrtf(s2[0] / count + eps);
    for (int i = threadIdx.x; i < count; i += T) {
        int at = (i / area * channels + c) * area + i % area;
        y[at] = (x[at] - mean) * inv * weight[c] + bias[c];
    }
    if (threadIdx.x == 0) {
        float n = seen[0];
        mean_state[c] = ((n - 1.0f) * mean_state[c] + mean) / n;
        var_state[c] = ((n - 1.0f) * var_state[c] + s2[0] / (count - 1)) / n;
    }
}

__global__ void count_up(float* seen) { seen[0] += 1.0f; }

torch::Tensor bn_forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, torch::Tensor mean_state,
                         torch::Tensor var_state, torch::Tensor seen) {
    auto y = torch::empty_like(x);
    int channels = x.size(1);
    batch_norm_kernel<<<channels, T>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
        mean_state.data_ptr<float>(), var_state.data_ptr<float>(), seen.data_ptr<float>(), y.data_ptr<float>(),
        x.size(0), channels, x.size(2) * x.size(3), 1e-5f);
    count_up<<<1, 1>>>(seen.data_ptr<float>());
    return y;
}
"""

bn = load_inline(
    name="bn_forward",
    cpp_sources="torch::Tensor bn_forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, torch::Tensor mean_state, torch::Tensor var_state, torch::Tensor seen);",
    cuda_sources=bn_source,
    functions=["bn_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x, running_mean, running_var, seen):
        y = bn.bn_forward(x.contiguous(), self.weight, self.bias, running_mean, running_var, seen)
        return y, running_mean.clone(), running_var.clone()
