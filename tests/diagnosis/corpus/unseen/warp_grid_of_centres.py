# about = "The grid runs through centres of elements, while places are read as from corner to corner."
# section = "mismatch"
# problem = "affine_warp"
# causes = ["align-corners", "wrong-coordinate"]
# says = ["corner|coordinate|centre|center|grid|place|half"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>

__global__ void make_grid(const float* theta, float2* grid, int batch, int h, int w) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= batch * h * w) return;
    int j = id % w, i = (id / w) % h, b = id / (w * h);
    float gx = (2 * j + 1) / (float)w - 1.0f;
    float gy = (2 * i + 1) / (float)h - 1.0f;
    const float* t = theta + b * 6;
    grid[id] = make_float2(t[0] * gx + t[1] * gy + t[2], t[3] * gx + t[4] * gy + t[5]);
}

__device__ float pixel(const float* p, int y, int x, int h, int w) {
    return (y >= 0 && y < h && x >= 0 && x < w) ? p[y * w + x] : 0.0f;
}

__global__ void sample(const float* x, const float2* grid, float* out, int channels, int h, int w, int n) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n) return;
    int area = h * w;
    int b = id / (area * channels);
    float2 g = grid[b * area + id % area];
    float px = (g.x + 1.0f) * 0.5f * (w - 1);
    float py = (g.y + 1.0f) * 0.5f * (h - 1);
    int x0 = (int)floorf(px), y0 = (int)floorf(py);
    float ax = px - x0, ay = py - y0;
    const float* p = x + (id / area) * area;
    out[id] = (1 - ay) * ((1 - ax) * pixel(p, y0, x0, h, w) + ax * pixel(p, y0, x0 + 1, h, w)) +
              ay * ((1 - ax) * pixel(p, y0 + 1, x0, h, w) + ax * pixel(p, y0 + 1, x0 + 1, h, w));
}

torch::Tensor warp(torch::Tensor x, torch::Tensor theta) {
    int batch = x.size(0), channels = x.size(1), h = x.size(2), w = x.size(3), n = x.numel();
    auto grid = torch::empty({batch, h, w, 2}, x.options());
    auto out = torch::empty_like(x);
    float2* g = reinterpret_cast<float2*>(grid.data_ptr<float>());
    make_grid<<<(batch * h * w + 63) / 64, 64>>>(theta.data_ptr<float>(), g, batch, h, w);
    sample<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), g, out.data_ptr<float>(), channels, h, w, n);
    return out;
}
"""

warp_ext = load_inline(
    name="warp_ext",
    cpp_sources="torch::Tensor warp(torch::Tensor x, torch::Tensor theta);",
    cuda_sources=cuda_source,
    functions=["warp"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, theta):
        return warp_ext.warp(x.contiguous(), theta.contiguous())
