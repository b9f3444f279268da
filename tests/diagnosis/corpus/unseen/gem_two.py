# about = "The sum of the powers where the mean belongs, and no root at the end."
# section = "mismatch"
# problem = "gem_pool"
# faults = [{causes = ["sum-for-mean", "wrong-divisor"], says = ["sum|mean|divi|count"]}, {causes = ["root-omitted", "operator-missing", "wrong-norm-order"], says = ["root|pow|missing|left out|omitted"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

__inline__ __device__ float warpReduceSum(float val) {
    for (int offset = 16; offset > 0; offset /= 2)
        val += __shfl_down_sync(0xffffffff, val, offset);
    return val;
}

__global__ void generalized_mean(const float* __restrict__ x, float* __restrict__ out, int planes, int area,
                                 float p, float eps) {
    int warp_id = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int plane = blockIdx.x * (blockDim.x / 32) + warp_id;
    if (plane >= planes) return;
    float acc = 0.f;
    for (int i = lane; i < area; i += 32) {
        float v = fmaxf(x[plane * area + i], eps);
        acc += __powf(v, p);
    }
    acc = warpReduceSum(acc);
    if (lane == 0) out[plane] = acc;
}

torch::Tensor generalized_mean_pool(torch::Tensor x, double p, double eps) {
    int planes = x.size(0) * x.size(1);
    int area = x.size(2) * x.size(3);
    auto out = torch::empty({x.size(0), x.size(1)}, x.options());
    int warps = 8;
    generalized_mean<<<(planes + warps - 1) / warps, warps * 32>>>(x.data_ptr<float>(), out.data_ptr<float>(),
                                                                   planes, area, (float)p, (float)eps);
    return out;
}
"""

ext = load_inline(
    name="generalized_mean_pool",
    cpp_sources="torch::Tensor generalized_mean_pool(torch::Tensor x, double p, double eps);",
    cuda_sources=cuda_src,
    functions=["generalized_mean_pool"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def __init__(self, power, low):
        super().__init__()
        self.power, self.low = power, low

    def forward(self, x):
        return ext.generalized_mean_pool(x.contiguous(), self.power, self.low)
