# about = "The decay multiplies the new value and its complement the old state."
# section = "mismatch"
# problem = "ema_gate"
# causes = ["wrong-decay", "weights-swapped", "operands-swapped"]
# says = ["decay|weight|swap|exchang|complement|1 - |coefficient|alpha|keep|state"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>

__global__ void ema_gate_kernel(const float* x, const float* start, const float* logit, const float* scale,
                                float* y, float* last, int batch, int steps, int channels) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * channels) return;
    int b = idx / channels;
    int c = idx % channels;

    float alpha = 1.0f / (1.0f + expf(-logit[c]));
    float s = scale[c];
    float state = start[idx];
    for (int t = 0; t < steps; t++) {
        int at = (b * steps + t) * channels + c;
        float v = x[at];
        state = alpha * v + (1.0f - alpha) * state;
        float d = v - state;
        y[at] = d / (1.0f + expf(-d)) * s;
    }
    last[idx] = state;
}

std::vector<torch::Tensor> ema_gate(torch::Tensor x, torch::Tensor start, torch::Tensor logit, torch::Tensor scale) {
    auto y = torch::empty_like(x);
    auto last = torch::empty_like(start);
    int batch = x.size(0), steps = x.size(1), channels = x.size(2);
    int threads = 128;
    int blocks = (batch * channels + threads - 1) / threads;
    ema_gate_kernel<<<blocks, threads>>>(x.data_ptr<float>(), start.data_ptr<float>(), logit.data_ptr<float>(),
        scale.data_ptr<float>(), y.data_ptr<float>(), last.data_ptr<float>(), batch, steps, channels);
    return {y, last};
}
"""

cpp_source = "std::vector<torch::Tensor> ema_gate(torch::Tensor x, torch::Tensor start, torch::Tensor logit, torch::Tensor scale);"

module = load_inline(name="ema_gate", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["ema_gate"])


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.logit = nn.Parameter(torch.linspace(-1.0, 2.0, channels))
        self.scale = nn.Parameter(torch.rand(channels) + 0.5)

    def forward(self, x, start):
        y, last = module.ema_gate(x.contiguous(), start.contiguous(), self.logit, self.scale)
        return y, last
