# about = "Right in everything."
# section = "right"
# problem = "depthwise_conv"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

causal_conv_cuda = r"""
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__device__ inline float silu(float v) { return v / (1.0f + expf(-v)); }

__global__ void causal_conv1d_silu(const float* __restrict__ x, const float* __restrict__ weight,
                                   const float* __restrict__ bias, float* __restrict__ out,
                                   int channels, int length, int width) {
    const int c = blockIdx.x;
    const int b = blockIdx.y;
    const float* xs = x + (b * channels + c) * length;
    float* os = out + (b * channels + c) * length;
    for (int t = threadIdx.x; t < length; t += blockDim.x) {
        float acc = bias[c];
        for (int k = 0; k < width; ++k) {
            const int src = t - (width - 1) + k;
            if (src >= 0) acc += xs[src] * weight[c * width + k];
        }
        os[t] = silu(acc);
    }
}

torch::Tensor causal_conv(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    auto out = torch::empty_like(x);
    dim3 grid(x.size(1), x.size(0));
    causal_conv1d_silu<<<grid, 64, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                                     out.data_ptr<float>(), x.size(1), x.size(2), weight.size(2));
    return out;
}
"""

causal = load_inline(
    name="causal_conv_silu",
    cpp_sources="torch::Tensor causal_conv(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);",
    cuda_sources=causal_conv_cuda,
    functions=["causal_conv"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, kernel):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, kernel, padding=kernel - 1, groups=channels)
        self.kernel = kernel

    def forward(self, x):
        return causal.causal_conv(x.contiguous(), self.conv.weight.contiguous(), self.conv.bias)
