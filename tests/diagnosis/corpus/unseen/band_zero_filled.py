# about = "Outside of the band the scores are zero before the softmax, not minus infinity."
# section = "mismatch"
# problem = "band_softmax"
# causes = ["wrong-fill-value", "mask-wrong-place", "mask-ignored"]
# says = ["fill|zero|0|infinit|mask|band|outside"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

band_source = r"""
#include <torch/extension.h>
#include <math.h>

__global__ void band_softmax_kernel(const float* __restrict__ x, float* __restrict__ y,
                                    int rows, int cols, int below, int above) {
    const int warps_per_block = blockDim.x / 32;
    const int row_id = blockIdx.x * warps_per_block + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int i = row_id % rows;
    const float* xr = x + (size_t)row_id * cols;
    float* yr = y + (size_t)row_id * cols;

    float vmax = -INFINITY;
    for (int j = lane; j < cols; j += 32) {
        const bool inside = j >= i - below && j <= i + above;
        vmax = fmaxf(vmax, inside ? xr[j] : 0.0f);
    }
    for (int s = 16; s; s >>= 1) vmax = fmaxf(vmax, __shfl_xor_sync(0xffffffffu, vmax, s));

    float vsum = 0.0f;
    for (int j = lane; j < cols; j += 32) {
        const bool inside = j >= i - below && j <= i + above;
        const float e = expf((inside ? xr[j] : 0.0f) - vmax);
        yr[j] = e;
        vsum += e;
    }
    for (int s = 16; s; s >>= 1) vsum += __shfl_xor_sync(0xffffffffu, vsum, s);
    const float inv = 1.0f / vsum;
    for (int j = lane; j < cols; j += 32) yr[j] *= inv;
}

torch::Tensor band_softmax(torch::Tensor x, int64_t below, int64_t above) {
    auto y = torch::empty_like(x);
    const int rows = x.size(1), cols = x.size(2);
    const int total = x.size(0) * rows;
    const int warps = total % 4 == 0 ? 4 : 1;
    band_softmax_kernel<<<total / warps, warps * 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols,
                                                       (int)below, (int)above);
    return y;
}
"""

band_ext = load_inline(
    name="band_softmax_ext",
    cpp_sources="torch::Tensor band_softmax(torch::Tensor x, int64_t below, int64_t above);",
    cuda_sources=band_source,
    functions=["band_softmax"],
)


class ModelNew(nn.Module):
    def __init__(self, below, above):
        super().__init__()
        self.below = below
        self.above = above

    def forward(self, x):
        return band_ext.band_softmax(x.contiguous(), self.below, self.above)
