# about = "Right: a warp for each bin counts its pixels and all below it by ballots; no atomics and no scan."
# section = "right"
# problem = "equalise_images"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__device__ int bin_of(float v, float low, float high, int bins) {
    const float at = (v - low) / (high - low) * (float)bins;
    if (!(at > 0.f)) return 0;
    return at >= (float)bins ? bins - 1 : (int)at;
}

__global__ void count(const float* __restrict__ x, float* __restrict__ counts, float* __restrict__ share, float low, float high,
                      int bins, int pixels) {
    const int bin = blockIdx.x, image = blockIdx.y, lane = threadIdx.x;
    int here = 0, upto = 0;
    for (int base = 0; base < pixels; base += 32) {
        const int i = base + lane;
        const int b = i < pixels ? bin_of(x[(size_t)image * pixels + i], low, high, bins) : bins;
        here += __popc(__ballot_sync(0xffffffffu, b == bin));
        upto += __popc(__ballot_sync(0xffffffffu, b <= bin));
    }
    if (lane == 0) {
        counts[image * bins + bin] = (float)here;
        share[image * bins + bin] = (float)upto / (float)pixels;
    }
}

__global__ void spread(const float* __restrict__ x, const float* __restrict__ share, float* __restrict__ y, float low, float high,
                       int bins, int pixels, int total) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x)
        y[i] = share[i / pixels * bins + bin_of(x[i], low, high, bins)];
}

std::vector<torch::Tensor> equalise(torch::Tensor x, int64_t bins, double low, double high) {
    const int images = x.size(0), total = x.numel(), pixels = total / images;
    auto counts = torch::empty({images, bins}, x.options()), share = torch::empty({images, bins}, x.options());
    auto y = torch::empty_like(x);
    auto stream = at::cuda::getCurrentCUDAStream();
    count<<<dim3(bins, images), 32, 0, stream>>>(x.data_ptr<float>(), counts.data_ptr<float>(), share.data_ptr<float>(),
                                                 (float)low, (float)high, bins, pixels);
    spread<<<3, 160, 0, stream>>>(x.data_ptr<float>(), share.data_ptr<float>(), y.data_ptr<float>(), (float)low, (float)high,
                                  bins, pixels, total);
    return {y, counts};
}
"""
ext = load_inline("equalise_by_ballot", cpp_sources="std::vector<torch::Tensor> equalise(torch::Tensor x, int64_t bins, double low, double high);",
                  cuda_sources=SRC, functions=["equalise"])


class ModelNew(nn.Module):
    def __init__(self, bins, low, high):
        super().__init__()
        self.bins, self.low, self.high = bins, low, high

    def forward(self, x):
        y, counts = ext.equalise(x.contiguous(), self.bins, self.low, self.high)
        return y, counts
