# about = "A right answer: clamped places, neighbours mixed by fma, all channels in one thread."
# section = "right"
# problem = "grid_sample_border"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
__device__ __forceinline__ float pin(float v, float top) { return fminf(fmaxf(v, 0.f), top); }

__device__ __forceinline__ float mix(float a, float b, float t) { return fmaf(t, b, fmaf(-t, a, a)); }

__global__ void border_sample(const float* x, const float* grid, float* y, int N, int C, int H, int W, int points) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= N * points) return;
    int n = at / points, i = at % points;
    float u = pin((grid[2 * (long)at] + 1.f) * 0.5f * (W - 1), W - 1.f);
    float v = pin((grid[2 * (long)at + 1] + 1.f) * 0.5f * (H - 1), H - 1.f);
    int x0 = (int)u, y0 = (int)v;
    int dx = x0 + 1 < W, dy = y0 + 1 < H ? W : 0;
    float s = u - x0, t = v - y0;
    for (int c = C - 1; c >= 0; --c) {
        const float* p = x + (((long)n * C + c) * H + y0) * W + x0;
        y[((long)n * C + c) * points + i] = mix(mix(p[0], p[dx], s), mix(p[dy], p[dy + dx], s), t);
    }
}

torch::Tensor border(torch::Tensor x, torch::Tensor grid) {
    int N = x.size(0), C = x.size(1), points = grid.size(1) * grid.size(2);
    auto y = torch::empty({N, C, grid.size(1), grid.size(2)}, x.options());
    border_sample<<<(N * points + 63) / 64, 64>>>(x.data_ptr<float>(), grid.data_ptr<float>(), y.data_ptr<float>(), N,
                                                  C, x.size(2), x.size(3), points);
    return y;
}
"""

ext = load_inline(
    name="border_sample",
    cpp_sources="torch::Tensor border(torch::Tensor x, torch::Tensor grid);",
    cuda_sources=CUDA,
    functions=["border"],
)


class ModelNew(nn.Module):
    def forward(self, x, grid):
        return ext.border(x.contiguous(), grid.contiguous())
