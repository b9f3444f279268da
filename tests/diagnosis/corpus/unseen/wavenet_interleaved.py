# about = "Even channels are activated and odd ones gate, where the reference splits into halves."
# section = "mismatch"
# problem = "wavenet_unit"
# causes = ["layout-misread", "wrong-channel", "wrong-coordinate", "wrong-axis"]
# says = ["channel|half|halves|interleav|even|layout|order|stride|second|neighbo|split|chunk"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

wavenet_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <math.h>

__global__ void wavenet_kernel(const float* __restrict__ x, const float* __restrict__ skip,
                               const float* __restrict__ cond, float* __restrict__ out,
                               int batch, int channels, int length) {
    const int total = batch * channels * length;
    const int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += stride) {
        const int t = i % length;
        const int c = (i / length) % channels;
        const int b = i / (length * channels);
        const int fa = b * 2 * channels + 2 * c;
        const int ga = fa + 1;
        const float f = x[fa * length + t] + cond[fa];
        const float g = x[ga * length + t] + cond[ga];
        const float z = tanhf(f) * (1.0f / (1.0f + expf(-g)));
        out[i] = (z + skip[i]) * 0.70710678f;
    }
}

torch::Tensor wavenet_forward(torch::Tensor x, torch::Tensor skip, torch::Tensor cond) {
    auto out = torch::empty_like(skip);
    int total = out.numel();
    int threads = 256;
    int blocks = (total + threads - 1) / threads;
    wavenet_kernel<<<blocks, threads>>>(x.data_ptr<float>(), skip.data_ptr<float>(), cond.data_ptr<float>(),
                                        out.data_ptr<float>(), skip.size(0), skip.size(1), skip.size(2));
    return out;
}
"""

wavenet = load_inline(
    name="wavenet_unit",
    cpp_sources="torch::Tensor wavenet_forward(torch::Tensor x, torch::Tensor skip, torch::Tensor cond);",
    cuda_sources=wavenet_source,
    functions=["wavenet_forward"],
    verbose=True,
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, skip, condition):
        return wavenet.wavenet_forward(x.contiguous(), skip.contiguous(), condition.contiguous())
