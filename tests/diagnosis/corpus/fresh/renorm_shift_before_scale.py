# about = "The shift is added before the scale multiplies."
# section = "mismatch"
# problem = "batch_renorm"
# causes = ["activation-order", "weight-wrong-place", "residual-wrong-place"]
# says = ["order|before|after|scale|multipl|place"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

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
    float r = fminf(fmaxf(std / running_std[f], 1.f / rmax), rmax);
    float d = fminf(fmaxf((mean - running_mean[f]) / running_std[f], -dmax), dmax);
    for (int n = lane; n < N; n += 32)
        y[n * F + f] = ((x[n * F + f] - mean) / std + d) * r * weight[f] + bias[f];
}

torch::Tensor batch_renorm(torch::Tensor x, torch::Tensor running_mean, torch::Tensor running_std, torch::Tensor weight, torch::Tensor bias, double rmax, double dmax) {
    auto y = torch::empty_like(x);
    renorm<<<x.size(1), 32>>>(x.data_ptr<float>(), running_mean.data_ptr<float>(), running_std.data_ptr<float>(), weight.data_ptr<float>(),
        bias.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1), rmax, dmax);
    return y;
}
"""

ext = load_inline("batch_renorm_module", ["torch::Tensor batch_renorm(torch::Tensor x, torch::Tensor running_mean, torch::Tensor running_std, torch::Tensor weight, torch::Tensor bias, double rmax, double dmax);"], [SOURCE], functions=["batch_renorm"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, features, most_scale, most_shift):
        super().__init__()
        self.bounds = (most_scale, most_shift)
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, running_mean, running_std):
        return ext.batch_renorm(x.contiguous(), running_mean, running_std, self.weight, self.bias, *self.bounds)
