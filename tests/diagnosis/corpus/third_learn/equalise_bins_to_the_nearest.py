# about = "A value goes to the nearest border of bins where the reference rounds down."
# section = "mismatch"
# problem = "equalise_images"
# causes = ["wrong-rounding", "index-off-by-one", "wrong-coordinate"]
# says = ["round|floor|trunc|nearest|half|bin|index|place"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void count_bins(const float* x, int* place, float* counts, float low, float scale, int bins, int pixels, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int bin = __float2int_rn((x[i] - low) * scale);
    bin = bin < 0 ? 0 : (bin >= bins ? bins - 1 : bin);
    place[i] = bin;
    atomicAdd(&counts[(i / pixels) * bins + bin], 1.0f);
}

__global__ void accumulate(const float* counts, float* share, int bins, int images, float pixels) {
    int image = blockIdx.x * blockDim.x + threadIdx.x;
    if (image >= images) return;
    float total = 0.f;
    for (int b = 0; b < bins; ++b) {
        total += counts[image * bins + b];
        share[image * bins + b] = total / pixels;
    }
}

__global__ void look_up(const int* place, const float* share, float* y, int bins, int pixels, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) y[i] = share[(i / pixels) * bins + place[i]];
}

std::vector<torch::Tensor> three_steps(torch::Tensor x, int64_t bins, double low, double high) {
    int images = x.size(0), total = x.numel(), pixels = total / images;
    auto place = torch::empty({total}, x.options().dtype(torch::kInt32));
    auto counts = torch::zeros({images, bins}, x.options());
    auto share = torch::empty_like(counts);
    auto y = torch::empty_like(x);
    int grid = (total + 255) / 256;
    count_bins<<<grid, 256>>>(x.data_ptr<float>(), place.data_ptr<int>(), counts.data_ptr<float>(), low, bins / (high - low), bins, pixels, total);
    accumulate<<<1, 32>>>(counts.data_ptr<float>(), share.data_ptr<float>(), bins, images, pixels);
    look_up<<<grid, 256>>>(place.data_ptr<int>(), share.data_ptr<float>(), y.data_ptr<float>(), bins, pixels, total);
    return {y, counts};
}
"""

steps = load_inline(
    name="equalise_three_steps",
    cpp_sources="std::vector<torch::Tensor> three_steps(torch::Tensor x, int64_t bins, double low, double high);",
    cuda_sources=source,
    functions=["three_steps"],
)


class ModelNew(nn.Module):
    def __init__(self, bins, low, high):
        super().__init__()
        self.bins, self.low, self.high = bins, low, high

    def forward(self, x):
        y, counts = steps.three_steps(x.contiguous(), self.bins, self.low, self.high)
        return y, counts
