# about = "The place that is returned counts from the start of the chunk of 32 in which the peak was found."
# section = "mismatch"
# problem = "peak_hold"
# causes = ["wrong-index-base", "index-off-by-one"]
# says = ["tile|chunk|base|32|relative|local|offset|counts from|within|block"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

#define CHUNK 32

__global__ void hold_chunked(const float* __restrict__ x, float* __restrict__ held, int64_t* __restrict__ place,
                             const float fade, const int steps, const int channels) {
    __shared__ float part[CHUNK];
    const int c = blockIdx.x, b = blockIdx.y, lane = threadIdx.x;
    const size_t row = (size_t)b * steps * channels + c;
    float peak = -INFINITY;   // of the chunks before
    int age = 0;              // steps since it, at the start of this chunk
    int slot = 0;
    for (int first = 0; first < steps; first += CHUNK) {
        const int n = min(CHUNK, steps - first);
        if (lane < n) part[lane] = x[row + (size_t)(first + lane) * channels];
        __syncthreads();
        if (lane < n) {
            float best = peak;
            int since = age + lane, where = slot;
            for (int j = 0; j <= lane; ++j) {
                if (part[j] >= best) {
                    best = part[j];
                    since = lane - j;
                    where = j;
                }
            }
            held[row + (size_t)(first + lane) * channels] = best * __powf(fade, since);
            place[row + (size_t)(first + lane) * channels] = where;
        }
        // every thread carries the same state on
        int late = -1;
        for (int j = 0; j < n; ++j)
            if (part[j] >= peak) {
                peak = part[j];
                late = j;
            }
        if (late >= 0) slot = late;
        age = late >= 0 ? n - late : age + n;
        __syncthreads();
    }
}

std::vector<torch::Tensor> hold(torch::Tensor x, double fade) {
    auto held = torch::empty_like(x);
    auto place = torch::empty_like(x, x.options().dtype(torch::kLong));
    hold_chunked<<<dim3(x.size(2), x.size(0)), CHUNK, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), held.data_ptr<float>(), place.data_ptr<int64_t>(), (float)fade, x.size(1), x.size(2));
    return {held, place};
}
"""

ext = load_inline("hold_chunked", cpp_sources="std::vector<torch::Tensor> hold(torch::Tensor x, double fade);", cuda_sources=SRC, functions=["hold"])


class ModelNew(nn.Module):
    def __init__(self, fade):
        super().__init__()
        self.fade = float(fade)

    def forward(self, x):
        return tuple(ext.hold(x.contiguous(), self.fade))
