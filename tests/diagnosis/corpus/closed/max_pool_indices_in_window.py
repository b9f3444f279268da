# about = "The place is counted within the window, not within the plane."
# section = "mismatch"
# problem = "max_pool_indices"
# causes = ["wrong-index-base"]
# says = ["window|plane|relative|base|local|offset"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <tuple>

__global__ void pool_with_index(const float* x, float* values, int64_t* indices, int total, int h, int w, int oh,
                                int ow) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int c = i % ow, r = i / ow % oh;
    const float* plane = x + (long)(i / (ow * oh)) * h * w;
    float best = -INFINITY;
    int at = 0;
    #pragma unroll
    for (int k = 0; k < 9; ++k) {
        int iy = 2 * r - 1 + k / 3, ix = 2 * c - 1 + k % 3;
        if (iy >= 0 && iy < h && ix >= 0 && ix < w) {
            float v = plane[iy * w + ix];
            if (v > best) {
                best = v;
                at = k;
            }
        }
    }
    values[i] = best;
    indices[i] = at;
}

std::tuple<torch::Tensor, torch::Tensor> pool(torch::Tensor x) {
    int h = x.size(2), w = x.size(3);
    int oh = (h - 1) / 2 + 1, ow = (w - 1) / 2 + 1;
    auto values = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    auto indices = torch::empty(values.sizes(), x.options().dtype(torch::kInt64));
    int total = values.numel();
    pool_with_index<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), values.data_ptr<float>(),
                                                  indices.data_ptr<int64_t>(), total, h, w, oh, ow);
    return {values, indices};
}
"""

ext = load_inline(
    name="pool_with_index",
    cpp_sources="#include <tuple>\nstd::tuple<torch::Tensor, torch::Tensor> pool(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["pool"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        values, indices = ext.pool(x.contiguous())
        return values, indices
