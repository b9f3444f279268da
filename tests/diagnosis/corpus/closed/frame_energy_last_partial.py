# about = "A last frame that is not whole is counted too: the number of frames is rounded up."
# section = "run"
# problem = "frame_energy"
# causes = ["wrong-shape", "output-size", "wrong-rounding"]
# says = ["shape|size|frame|round|ceil|floor"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>

__global__ void energy(const float* __restrict__ x, const float* __restrict__ window, float* __restrict__ y,
                       int samples, int frames, int frame, int hop) {
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f >= frames) return;
    float e = 0.f;
    for (int j = 0; j < frame; ++j) {
        int s = f * hop + j;
        float v = s < samples ? x[blockIdx.y * samples + s] * window[j] : 0.f;
        e += v * v;
    }
    y[blockIdx.y * frames + f] = e / frame;
}

torch::Tensor frame_energy(torch::Tensor x, torch::Tensor window, int hop) {
    int samples = x.size(1), frame = window.size(0);
    int frames = (samples - frame + hop - 1) / hop + 1;
    auto y = torch::empty({x.size(0), frames}, x.options());
    dim3 grid((frames + 31) / 32, x.size(0));
    energy<<<grid, 32>>>(x.data_ptr<float>(), window.data_ptr<float>(), y.data_ptr<float>(), samples, frames, frame, hop);
    return y;
}
"""
fe = load_inline(name="frame_energy", cpp_sources="torch::Tensor frame_energy(torch::Tensor x, torch::Tensor window, int hop);", cuda_sources=src, functions=["frame_energy"])


class ModelNew(nn.Module):
    def __init__(self, frame, hop):
        super().__init__()
        self.hop = hop
        self.window = nn.Parameter(torch.rand(frame) + 0.2)

    def forward(self, x):
        return fe.frame_energy(x.contiguous(), self.window, self.hop)
