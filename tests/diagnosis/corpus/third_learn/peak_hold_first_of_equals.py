# about = "Of equal peaks the first is held, where the reference takes the last."
# section = "mismatch"
# problem = "peak_hold"
# causes = ["tie-order"]
# says = ["tie|equal|last|first|latest|earliest|same value"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#include <math.h>

__global__ void peak_hold_kernel(const float* x, float* held, int64_t* place, float fade, int batch, int steps, int channels) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= batch * channels) return;
    int b = idx / channels;
    int c = idx % channels;
    float best = -INFINITY;
    int best_t = 0;
    for (int t = 0; t < steps; t++) {
        int at = (b * steps + t) * channels + c;
        float v = x[at];
        if (v > best) {
            best = v;
            best_t = t;
        }
        held[at] = best * powf(fade, (float)(t - best_t));
        place[at] = best_t;
    }
}

std::vector<torch::Tensor> peak_hold(torch::Tensor x, double fade) {
    auto held = torch::empty_like(x);
    auto place = torch::empty(x.sizes(), x.options().dtype(torch::kInt64));
    int batch = x.size(0), steps = x.size(1), channels = x.size(2);
    peak_hold_kernel<<<(batch * channels + 255) / 256, 256>>>(x.data_ptr<float>(), held.data_ptr<float>(),
        place.data_ptr<int64_t>(), (float)fade, batch, steps, channels);
    return {held, place};
}
"""

peak = load_inline(
    name="peak_hold",
    cpp_sources="std::vector<torch::Tensor> peak_hold(torch::Tensor x, double fade);",
    cuda_sources=cuda_source,
    functions=["peak_hold"],
)


class ModelNew(nn.Module):
    def __init__(self, fade):
        super().__init__()
        self.fade = fade

    def forward(self, x):
        held, place = peak.peak_hold(x.contiguous(), self.fade)
        return held, place
