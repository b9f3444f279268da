# about = "The given state is not read, the recurrence begins with zero; and eps is added to the root instead of below it."
# section = "mismatch"
# problem = "gated_recurrence_norm"
# faults = [{causes = ["wrong-initial-state", "base-ignored", "reduction-start-value", "state-not-updated"], says = ["state|start|init|begin|zero"]}, {causes = ["eps-outside-root", "wrong-eps"], says = ["eps"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// one thread walks through time for one (sample, channel)
__global__ void recurrence_kernel(const float* __restrict__ x, const float* __restrict__ gate,
                                  const float* __restrict__ decay, const float* __restrict__ state,
                                  float* __restrict__ h, float* __restrict__ last,
                                  int batch, int steps, int channels) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * channels) return;
    int b = idx / channels;
    int c = idx % channels;
    float s = 0.0f;
    float d = decay[c];
    for (int t = 0; t < steps; ++t) {
        int at = (b * steps + t) * channels + c;
        float keep = 1.0f / (1.0f + expf(-(gate[at] + d)));
        s = keep * s + (1.0f - keep) * x[at];
        h[at] = s;
    }
    last[idx] = s;
}

// one warp per row of channels
__global__ void rms_skip_kernel(const float* __restrict__ h, const float* __restrict__ x,
                                const float* __restrict__ weight, const float* __restrict__ skip,
                                float* __restrict__ y, int rows, int channels, float eps) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* hr = h + row * channels;
    float sum = 0.0f;
    for (int c = lane; c < channels; c += 32) sum += hr[c] * hr[c];
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
    float scale = 1.0f / (sqrtf(sum / channels) + eps);
    for (int c = lane; c < channels; c += 32)
        y[row * channels + c] = hr[c] * scale * weight[c] + skip[c] * x[row * channels + c];
}

std::vector<torch::Tensor> gated_norm(torch::Tensor x, torch::Tensor gate, torch::Tensor state, torch::Tensor decay,
                                      torch::Tensor weight, torch::Tensor skip, double eps) {
    int batch = x.size(0), steps = x.size(1), channels = x.size(2);
    auto h = torch::empty_like(x);
    auto y = torch::empty_like(x);
    auto last = torch::empty_like(state);
    auto stream = at::cuda::getCurrentCUDAStream();
    int threads = 64;
    recurrence_kernel<<<(batch * channels + threads - 1) / threads, threads, 0, stream>>>(
        x.data_ptr<float>(), gate.data_ptr<float>(), decay.data_ptr<float>(), state.data_ptr<float>(),
        h.data_ptr<float>(), last.data_ptr<float>(), batch, steps, channels);
    int rows = batch * steps;
    rms_skip_kernel<<<(rows + 3) / 4, 128, 0, stream>>>(h.data_ptr<float>(), x.data_ptr<float>(),
        weight.data_ptr<float>(), skip.data_ptr<float>(), y.data_ptr<float>(), rows, channels, (float)eps);
    return {y, last};
}
"""

cpp_source = """
#include <vector>
std::vector<torch::Tensor> gated_norm(torch::Tensor x, torch::Tensor gate, torch::Tensor state, torch::Tensor decay,
                                      torch::Tensor weight, torch::Tensor skip, double eps);
"""

gated = load_inline(name="gated_norm", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["gated_norm"])


class ModelNew(nn.Module):
    def __init__(self, channels, eps):
        super().__init__()
        self.decay = nn.Parameter(torch.randn(channels))
        self.weight = nn.Parameter(torch.ones(channels))
        self.skip = nn.Parameter(torch.rand(channels) + 0.5)
        self.eps = eps

    def forward(self, x, gate, state):
        y, last = gated.gated_norm(x.contiguous(), gate.contiguous(), state.contiguous(), self.decay, self.weight,
                                   self.skip, self.eps)
        return y, last
