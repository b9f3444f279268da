# about = "The lower bound of the scale is zero; the reference's is one over the upper."
# section = "mismatch"
# problem = "batch_renorm"
# causes = ["clamp-bounds", "clamp-missing"]
# says = ["clamp|bound|limit|min|1/|lower"]
# stage = ["verify"]

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

__device__ float warp_sum(float v) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

// one warp per feature
__global__ void renorm(const float* x, const float* running_mean, const float* running_std, const float* weight, const float* bias,
                       float* y, int N, int F, float rmax, float dmax) {
    int f = blockIdx.x, lane = threadIdx.x;
    float s = 0.f;
    for (int n = lane; n < N; n += 32) s += x[n * F + f];
    float mean = warp_sum(s) / N;
    float q = 0.f;
    for (int n = lane; n < N; n += 32) {
        float d = x[n * F + f] - mean;
        q += d * d;
    }
    float std = sqrtf(warp_sum(q) / N + 1e-3f);
    float r = fminf(fmaxf(std / running_std[f], 0.f), rmax);
    float d = fminf(fmaxf((mean - running_mean[f]) / running_std[f], -dmax), dmax);
    for (int n = lane; n < N; n += 32)
        y[n * F + f] = ((x[n * F + f] - mean) / std * r + d) * weight[f] + bias[f];
}

torch::Tensor batch_renorm(torch::Tensor x, torch::Tensor running_mean, torch::Tensor running_std, torch::Tensor weight, torch::Tensor bias, double rmax, double dmax) {
    auto y = torch::empty_like(x);
    renorm<<<x.size(1), 32>>>(x.data_ptr<float>(), running_mean.data_ptr<float>(), running_std.data_ptr<float>(), weight.data_ptr<float>(),
        bias.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1), rmax, dmax);
    return y;
}
"""

DECLARATIONS = """
torch::Tensor batch_renorm(torch::Tensor x, torch::Tensor running_mean, torch::Tensor running_std, torch::Tensor weight, torch::Tensor bias, double rmax, double dmax);
"""

ext = load_inline(
    name="fused_batch_renorm",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["batch_renorm"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self, features, most_scale, most_shift):
        super().__init__()
        self.bounds = (most_scale, most_shift)
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, running_mean, running_std):
        return ext.batch_renorm(x.contiguous(), running_mean, running_std, self.weight, self.bias, *self.bounds)
