# about = "Each chunk of 16 steps begins anew with the starting state; what earlier chunks held is lost."
# section = "mismatch"
# problem = "ema_gate"
# causes = ["scan-restarts", "partial-sums-not-combined", "wrong-initial-state"]
# says = ["restart|tile|chunk|carr|block|forget|anew|earlier|segment|every 16|begin|start|16"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

code = r"""
#include <torch/extension.h>
#define CHUNK 16

__device__ __forceinline__ float silu(float v) { return v / (1.0f + expf(-v)); }

__global__ void ema_chunks(const float* __restrict__ x, const float* __restrict__ start,
                           const float* __restrict__ logit, const float* __restrict__ scale,
                           float* __restrict__ y, float* __restrict__ last,
                           int batch, int steps, int channels, int chunks) {
    int tid = blockIdx.x * blockDim.x + threadIdx.x;
    int total = batch * chunks * channels;
    if (tid < total) {
        int c = tid % channels;
        int k = (tid / channels) % chunks;
        int b = tid / (channels * chunks);
        float keep = 1.0f / (1.0f + expf(-logit[c]));
        float state = start[b * channels + c];
        int from = k * CHUNK;
        int to = min(from + CHUNK, steps);
        for (int t = from; t < to; ++t) {
            long at = ((long)b * steps + t) * channels + c;
            state = keep * state + (1.0f - keep) * x[at];
            y[at] = silu(x[at] - state) * scale[c];
        }
        if (to == steps) last[b * channels + c] = state;
    }
}

std::vector<torch::Tensor> ema_gate_chunked(torch::Tensor x, torch::Tensor start, torch::Tensor logit, torch::Tensor scale) {
    TORCH_CHECK(x.is_cuda(), "x must be on the GPU");
    auto y = torch::empty_like(x);
    auto last = torch::empty_like(start);
    int batch = x.size(0), steps = x.size(1), channels = x.size(2);
    int chunks = (steps + CHUNK - 1) / CHUNK;
    int total = batch * chunks * channels;
    ema_chunks<<<(total + 63) / 64, 64>>>(x.data_ptr<float>(), start.data_ptr<float>(), logit.data_ptr<float>(),
        scale.data_ptr<float>(), y.data_ptr<float>(), last.data_ptr<float>(), batch, steps, channels, chunks);
    return {y, last};
}
"""

mod = load_inline(
    name="ema_gate_chunked",
    cpp_sources="std::vector<torch::Tensor> ema_gate_chunked(torch::Tensor x, torch::Tensor start, torch::Tensor logit, torch::Tensor scale);",
    cuda_sources=code,
    functions=["ema_gate_chunked"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.logit = nn.Parameter(torch.linspace(-1.0, 2.0, channels))
        self.scale = nn.Parameter(torch.rand(channels) + 0.5)

    def forward(self, x: torch.Tensor, start: torch.Tensor):
        out = mod.ema_gate_chunked(x.contiguous(), start.contiguous(), self.logit.contiguous(), self.scale.contiguous())
        return out[0], out[1]
