# about = "The default slope of leaky ReLU, 0.01, where the reference has 0.2."
# section = "mismatch"
# problem = "hardswish_clamp"
# causes = ["wrong-slope"]
# says = ["slope"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

act_source = r"""
#include <torch/extension.h>

__device__ __forceinline__ float activate(float v) {
    v *= 3.0f;
    v = v > 0.0f ? v : 0.01f * v;
    v = v * fminf(fmaxf(v + 3.0f, 0.0f), 6.0f) / 6.0f;
    return fminf(fmaxf(v, -0.3f), 4.0f);
}

__global__ void activate_kernel(const float* __restrict__ x, float* __restrict__ y, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i + 3 < n) {
        float4 v = *reinterpret_cast<const float4*>(x + i);
        v.x = activate(v.x);
        v.y = activate(v.y);
        v.z = activate(v.z);
        v.w = activate(v.w);
        *reinterpret_cast<float4*>(y + i) = v;
    } else {
        for (int j = i; j < n; ++j) y[j] = activate(x[j]);
    }
}

torch::Tensor activate_cuda(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    int vectors = (n + 3) / 4;
    activate_kernel<<<(vectors + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""

act = load_inline(name="act_fused", cpp_sources="torch::Tensor activate_cuda(torch::Tensor x);", cuda_sources=act_source, functions=["activate_cuda"])


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, x):
        # a fresh copy keeps the vector loads aligned
        return act.activate_cuda(x.contiguous().clone())
