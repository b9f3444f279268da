# about = "The place that is returned is flattened by the output's width in place of the input's."
# section = "mismatch"
# problem = "adaptive_max_places"
# causes = ["wrong-index-base", "hard-coded-size", "layout-misread"]
# says = ["index|indices|place|flatten|width|stride"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>
#include <tuple>

__device__ int bin_start(int o, int in, int out) { return o * in / out; }
__device__ int bin_end(int o, int in, int out) { return ((o + 1) * in + out - 1) / out; }

__global__ void adaptive_max(const float* x, float* values, int64_t* places, int h, int w, int oh, int ow) {
    int plane = blockIdx.x;
    const float* p = x + plane * h * w;
    for (int cell = threadIdx.x; cell < oh * ow; cell += blockDim.x) {
        int oy = cell / ow, ox = cell % ow;
        float best = -INFINITY;
        int64_t where = 0;
        for (int iy = bin_start(oy, h, oh); iy < bin_end(oy, h, oh); iy++) {
            for (int ix = bin_start(ox, w, ow); ix < bin_end(ox, w, ow); ix++) {
                float v = p[iy * w + ix];
                if (v > best) {
                    best = v;
                    where = (int64_t)iy * ow + ix;
                }
            }
        }
        values[plane * oh * ow + cell] = best;
        places[plane * oh * ow + cell] = where;
    }
}

std::tuple<torch::Tensor, torch::Tensor> adaptive_max_pool(torch::Tensor x, int64_t oh, int64_t ow) {
    auto values = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    auto places = torch::empty({x.size(0), x.size(1), oh, ow}, x.options().dtype(torch::kLong));
    adaptive_max<<<x.size(0) * x.size(1), 32>>>(x.data_ptr<float>(), values.data_ptr<float>(),
                                                places.data_ptr<int64_t>(), x.size(2), x.size(3), oh, ow);
    return std::make_tuple(values, places);
}
"""

ops = load_inline(
    name="adaptive_ops",
    cpp_sources="#include <tuple>\nstd::tuple<torch::Tensor, torch::Tensor> adaptive_max_pool(torch::Tensor x, int64_t oh, int64_t ow);",
    cuda_sources=src,
    functions=["adaptive_max_pool"],
)


class ModelNew(nn.Module):
    def __init__(self, height, width):
        super().__init__()
        self.height = height
        self.width = width

    def forward(self, x):
        return ops.adaptive_max_pool(x.contiguous(), self.height, self.width)
