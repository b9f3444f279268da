# about = "Three kernels with scratch; tanh by the sigmoid of twice the value."
# section = "right"
# problem = "gated_causal"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

wave_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void causal_conv(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b,
                            float* __restrict__ h, int inner, int outer, int length, int dilation, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const int t = i % length, o = i / length % outer, batch = i / (length * outer);
        float acc = 0.f;
        for (int k = 2; k >= 0; --k) {
            const int at = t - (2 - k) * dilation;
            if (at < 0) break;
            for (int c = 0; c < inner; ++c)
                acc += w[(o * inner + c) * 3 + k] * x[(batch * inner + c) * length + at];
        }
        h[i] = acc + b[o];
    }
}

__global__ void gate(float* __restrict__ h, int channels, int length, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int part = channels * length, batch = i / part, inside = i % part;
    float* first = h + (size_t)batch * 2 * part + inside;
    const float s = 2.f / (1.f + __expf(-2.f * first[0])) - 1.f;
    const float g = 1.f / (1.f + __expf(-first[part]));
    first[0] = s * g;
}

__global__ void mix(const float* __restrict__ x, const float* __restrict__ h, const float* __restrict__ w,
                    const float* __restrict__ b, float* __restrict__ y, int channels, int length, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int t = i % length, o = i / length % channels, batch = i / (length * channels);
    float acc = b[o];
    for (int c = channels - 1; c >= 0; --c) acc += w[o * channels + c] * h[(batch * 2 * channels + c) * length + t];
    y[i] = acc + x[i];
}

torch::Tensor wave(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor ow, torch::Tensor ob,
                   int64_t dilation) {
    const int batch = x.size(0), channels = x.size(1), length = x.size(2), n = x.numel();
    auto h = torch::empty({batch, 2 * channels, length}, x.options());
    auto y = torch::empty_like(x);
    auto stream = at::cuda::getCurrentCUDAStream();
    causal_conv<<<6, 96, 0, stream>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
                                      h.data_ptr<float>(), channels, 2 * channels, length, dilation, 2 * n);
    gate<<<(n + 63) / 64, 64, 0, stream>>>(h.data_ptr<float>(), channels, length, n);
    mix<<<(n + 63) / 64, 64, 0, stream>>>(x.data_ptr<float>(), h.data_ptr<float>(), ow.data_ptr<float>(),
                                          ob.data_ptr<float>(), y.data_ptr<float>(), channels, length, n);
    return y;
}
"""

wave_ext = load_inline(
    name="wave_stages",
    cpp_sources="torch::Tensor wave(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor ow, torch::Tensor ob, int64_t dilation);",
    cuda_sources=wave_src,
    functions=["wave"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.conv = nn.Conv1d(channels, 2 * channels, 3, dilation=dilation)
        self.out = nn.Conv1d(channels, channels, 1)
        self.dilation = dilation

    def forward(self, x):
        return wave_ext.wave(
            x.contiguous(), self.conv.weight, self.conv.bias, self.out.weight, self.out.bias, self.dilation
        )
