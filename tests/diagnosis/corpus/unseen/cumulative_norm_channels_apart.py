# about = "Each channel is normalised by its own frames; the reference takes all channels."
# section = "mismatch"
# problem = "cumulative_norm"
# causes = ["statistics-per-channel", "statistics-over-wrong-axes", "wrong-axis"]
# says = ["channel|axes|axis|dim|statistic"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void cumulative_norm_kernel(const float* __restrict__ x, const float* __restrict__ gain,
                                       const float* __restrict__ offset, float* __restrict__ y, int channels,
                                       int frames, float eps) {
    int c = blockIdx.x;
    int b = blockIdx.y;
    extern __shared__ float smem[];
    float* sums = smem;
    float* squares = smem + frames;
    const float* src = x + ((long)b * channels + c) * frames;
    float* dst = y + ((long)b * channels + c) * frames;
    for (int t = threadIdx.x; t < frames; t += blockDim.x) {
        sums[t] = src[t];
        squares[t] = src[t] * src[t];
    }
    __syncthreads();
    if (threadIdx.x == 0)
        for (int t = 1; t < frames; ++t) sums[t] += sums[t - 1];
    else if (threadIdx.x == 32)
        for (int t = 1; t < frames; ++t) squares[t] += squares[t - 1];
    __syncthreads();
    for (int t = threadIdx.x; t < frames; t += blockDim.x) {
        float mean = sums[t] / (t + 1);
        float var = squares[t] / (t + 1) - mean * mean;
        dst[t] = gain[c] * (src[t] - mean) / sqrtf(var + eps) + offset[c];
    }
}

torch::Tensor cumulative_norm(torch::Tensor x, torch::Tensor gain, torch::Tensor offset, double eps) {
    auto y = torch::empty_like(x);
    int frames = x.size(2);
    dim3 grid(x.size(1), x.size(0));
    cumulative_norm_kernel<<<grid, 64, 2 * frames * sizeof(float)>>>(x.data_ptr<float>(), gain.data_ptr<float>(),
        offset.data_ptr<float>(), y.data_ptr<float>(), x.size(1), frames, eps);
    return y;
}
"""

ext = load_inline(
    name="cumulative_norm",
    cpp_sources="torch::Tensor cumulative_norm(torch::Tensor x, torch::Tensor gain, torch::Tensor offset, double eps);",
    cuda_sources=source,
    functions=["cumulative_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, eps):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(channels, 1))
        self.offset = nn.Parameter(torch.zeros(channels, 1))
        self.eps = eps

    def forward(self, x):
        return ext.cumulative_norm(x.contiguous(), self.gain, self.offset, self.eps)
