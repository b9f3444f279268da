# about = "The average begins with zero and not with the state that is given."
# section = "mismatch"
# problem = "ema_gate"
# causes = ["wrong-initial-state", "base-ignored", "reduction-start-value"]
# says = ["initial|start|begin|zero|first state|given|base|before"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
template <int TILE>
__global__ void ema_tiled(const float* x, const float* logit, const float* scale, float* y, float* last,
                          const int steps, const int channels) {
    // a block holds TILE steps of one sample in shared memory, all channels
    extern __shared__ float tile[];
    const int b = blockIdx.x;
    const int c = threadIdx.x;
    const float keep = 1.f / (1.f + expf(-logit[c]));
    float carry = 0.f;
    for (int first = 0; first < steps; first += TILE) {
        const int here = min(TILE, steps - first);
        for (int t = 0; t < here; ++t) tile[t * channels + c] = x[(b * steps + first + t) * channels + c];
        __syncthreads();
        for (int t = 0; t < here; ++t) {
            const float v = tile[t * channels + c];
            carry = keep * carry + (1.f - keep) * v;
            const float d = v - carry;
            y[(b * steps + first + t) * channels + c] = scale[c] * d / (1.f + expf(-d));
        }
        __syncthreads();
    }
    last[b * channels + c] = carry;
}

std::vector<torch::Tensor> ema_forward(torch::Tensor x, torch::Tensor logit, torch::Tensor scale) {
    const int batch = x.size(0), steps = x.size(1), channels = x.size(2);
    auto y = torch::empty_like(x);
    auto last = torch::empty({batch, channels}, x.options());
    ema_tiled<16><<<batch, channels, 16 * channels * sizeof(float)>>>(x.data_ptr<float>(), logit.data_ptr<float>(),
        scale.data_ptr<float>(), y.data_ptr<float>(), last.data_ptr<float>(), steps, channels);
    return {y, last};
}
"""

ema = load_inline(
    name="ema_tiled",
    cpp_sources="#include <vector>\nstd::vector<torch::Tensor> ema_forward(torch::Tensor x, torch::Tensor logit, torch::Tensor scale);",
    cuda_sources=source,
    functions=["ema_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.logit = nn.Parameter(torch.linspace(-1.0, 2.0, channels))
        self.scale = nn.Parameter(torch.rand(channels) + 0.5)

    def forward(self, x, start):
        y, last = ema.ema_forward(x.contiguous(), self.logit, self.scale)
        return y, last
