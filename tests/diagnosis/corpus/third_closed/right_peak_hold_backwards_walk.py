# about = "Right: every place is a thread of its own, which walks back and takes the first strictly higher value."
# section = "right"
# problem = "peak_hold"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void walk_back(const float* __restrict__ x, float* __restrict__ held, int64_t* __restrict__ place, float fade,
                          int steps, int channels, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        const int t = (i / channels) % steps;
        float best = x[i];
        int age = 0;
        for (int back = 1; back <= t; ++back) {
            const float v = x[i - back * channels];
            if (v > best) {
                best = v;
                age = back;
            }
        }
        float factor = 1.f;
        for (int k = 0; k < age; ++k) factor *= fade;
        held[i] = best * factor;
        place[i] = t - age;
    }
}

std::tuple<torch::Tensor, torch::Tensor> hold_peaks(torch::Tensor x, double fade) {
    auto held = torch::empty_like(x);
    auto place = torch::empty(x.sizes(), x.options().dtype(torch::kInt64));
    const int total = x.numel();
    walk_back<<<6, 160, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), held.data_ptr<float>(),
        place.data_ptr<int64_t>(), static_cast<float>(fade), x.size(1), x.size(2), total);
    return std::make_tuple(held, place);
}
"""

ext = load_inline(
    "peaks_walked_back",
    cpp_sources="std::tuple<torch::Tensor, torch::Tensor> hold_peaks(torch::Tensor x, double fade);",
    cuda_sources=SRC,
    functions=["hold_peaks"],
)


class ModelNew(nn.Module):
    def __init__(self, fade):
        super().__init__()
        self.fade = fade

    def forward(self, x):
        return ext.hold_peaks(x.contiguous(), self.fade)
