# about = "Statistics by pairs of lanes that merge (Chan), then a kernel for the elements; the states in place."
# section = "right"
# problem = "bn_cumulative"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

bn_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void statistics(const float* __restrict__ x, float* running_mean, float* running_var, float* seen,
                           float2* moments, int batch, int channels, int area) {
    const int c = threadIdx.y, lane = threadIdx.x;
    const int total = batch * area;
    float n = 0.f, mean = 0.f, m2 = 0.f;
    for (int i = lane; i < total; i += 32) {
        const float v = x[((i / area) * channels + c) * area + i % area];
        n += 1.f;
        const float d = v - mean;
        mean += d / n;
        m2 += d * (v - mean);
    }
    for (int o = 16; o > 0; o >>= 1) {
        const float bn = __shfl_xor_sync(0xffffffffu, n, o);
        const float bmean = __shfl_xor_sync(0xffffffffu, mean, o);
        const float bm2 = __shfl_xor_sync(0xffffffffu, m2, o);
        const float all = n + bn;
        if (all > 0.f) {
            const float d = bmean - mean;
            m2 += bm2 + d * d * n * bn / all;
            mean = (n * mean + bn * bmean) / all;
            n = all;
        }
    }
    const float count = seen[0] + 1.f;
    __syncthreads();
    if (lane == 0) {
        running_mean[c] = (running_mean[c] * (count - 1.f) + mean) / count;
        running_var[c] = (running_var[c] * (count - 1.f) + m2 / (n - 1.f)) / count;
        moments[c] = make_float2(mean, rsqrtf(m2 / n + 1e-5f));
        if (c == 0) seen[0] = count;
    }
}

__global__ void normalise(const float* __restrict__ x, const float2* __restrict__ moments,
                          const float* __restrict__ weight, const float* __restrict__ bias, float* __restrict__ y,
                          int channels, int area, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int c = i / area % channels;
    const float scale = moments[c].y * weight[c];
    y[i] = fmaf(x[i], scale, bias[c] - moments[c].x * scale);
}

torch::Tensor bn_forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, torch::Tensor running_mean,
                         torch::Tensor running_var, torch::Tensor seen) {
    const int batch = x.size(0), channels = x.size(1), area = x.size(2) * x.size(3), n = x.numel();
    TORCH_CHECK(channels <= 32);
    auto moments = torch::empty({channels, 2}, x.options());
    auto y = torch::empty_like(x);
    float2* pairs = reinterpret_cast<float2*>(moments.data_ptr<float>());
    auto stream = at::cuda::getCurrentCUDAStream();
    statistics<<<1, dim3(32, channels), 0, stream>>>(x.data_ptr<float>(), running_mean.data_ptr<float>(),
                                                     running_var.data_ptr<float>(), seen.data_ptr<float>(), pairs,
                                                     batch, channels, area);
    normalise<<<(n + 127) / 128, 128, 0, stream>>>(x.data_ptr<float>(), pairs, weight.data_ptr<float>(),
                                                   bias.data_ptr<float>(), y.data_ptr<float>(), channels, area, n);
    return y;
}
"""

bn = load_inline(
    name="bn_two_kernels",
    cpp_sources="torch::Tensor bn_forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, torch::Tensor running_mean, torch::Tensor running_var, torch::Tensor seen);",
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
