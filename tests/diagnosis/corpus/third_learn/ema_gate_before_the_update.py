# about = "The gate sees the average as it was before the present element went in."
# section = "mismatch"
# problem = "ema_gate"
# causes = ["state-order", "scan-exclusive", "scan-off-by-one", "index-off-by-one"]
# says = ["exclusiv|before|previous|prior|old|off by one|shift|one step|one element|earlier|late|update|without the"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// one warp per channel group, lanes are channels; y holds the averages first
__global__ void averages(const float* __restrict__ x, const float* __restrict__ start, const float* __restrict__ logit,
                         float* __restrict__ avg, float* __restrict__ last, int steps, int channels) {
    const int c = threadIdx.x + blockIdx.y * blockDim.x, b = blockIdx.x;
    if (c >= channels) return;
    const float keep = 1.f / (1.f + __expf(-logit[c]));
    const float* in = x + (size_t)b * steps * channels + c;
    float* out = avg + (size_t)b * steps * channels + c;
    float h = start[b * channels + c];
    for (int t = 0; t < steps; ++t, in += channels, out += channels) {
        *out = h;
        h = fmaf(keep, h - *in, *in);
    }
    last[b * channels + c] = h;
}

__global__ void gate(const float* __restrict__ x, const float* __restrict__ scale, float* __restrict__ y, int n, int channels) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float d = x[i] - y[i];
        y[i] = d * (1.f / (1.f + __expf(-d))) * scale[i % channels];
    }
}

std::vector<torch::Tensor> run(torch::Tensor x, torch::Tensor start, torch::Tensor logit, torch::Tensor scale) {
    auto y = torch::empty_like(x), last = torch::empty_like(start);
    auto stream = at::cuda::getCurrentCUDAStream();
    const int channels = x.size(2);
    averages<<<dim3(x.size(0), (channels + 31) / 32), 32, 0, stream>>>(x.data_ptr<float>(), start.data_ptr<float>(),
        logit.data_ptr<float>(), y.data_ptr<float>(), last.data_ptr<float>(), x.size(1), channels);
    gate<<<4, 256, 0, stream>>>(x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), x.numel(), channels);
    return {y, last};
}
"""

ext = load_inline(
    "ema_two_kernels",
    cpp_sources="std::vector<torch::Tensor> run(torch::Tensor x, torch::Tensor start, torch::Tensor logit, torch::Tensor scale);",
    cuda_sources=SRC,
    functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.logit = nn.Parameter(torch.linspace(-1.0, 2.0, channels))
        self.scale = nn.Parameter(torch.rand(channels) + 0.5)

    def forward(self, x, start):
        return tuple(ext.run(x.contiguous(), start.contiguous(), self.logit, self.scale))
