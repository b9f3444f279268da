# about = "Reflects at the outer pixels' centres, where the reference reflects at their edges."
# section = "mismatch"
# problem = "grid_sample_reflection"
# causes = ["padding-mode", "align-corners", "wrong-coordinate"]
# says = ["reflect|edge|cent|align|padding|coordinate"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__device__ float reflect(float p, int n) {
    const float span = n - 1.f;
    p = fmodf(fabsf(p), 2.f * span);
    return p > span ? 2.f * span - p : p;
}

__global__ void sample_reflected(const float* __restrict__ x, const float* __restrict__ grid, float* __restrict__ y,
                                 int C, int H, int W, int points) {
    const int n = blockIdx.z, c = blockIdx.y;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= points) return;
    const float* g = grid + ((size_t)n * points + i) * 2;
    const float u = reflect(((g[0] + 1.f) * W - 1.f) * 0.5f, W);
    const float v = reflect(((g[1] + 1.f) * H - 1.f) * 0.5f, H);
    const int x0 = min((int)u, W - 1), y0 = min((int)v, H - 1);
    const int x1 = min(x0 + 1, W - 1), y1 = min(y0 + 1, H - 1);
    const float s = u - x0, t = v - y0;
    const float* p = x + ((size_t)n * C + c) * H * W;
    const float top = p[y0 * W + x0] + s * (p[y0 * W + x1] - p[y0 * W + x0]);
    const float low = p[y1 * W + x0] + s * (p[y1 * W + x1] - p[y1 * W + x0]);
    y[((size_t)n * C + c) * points + i] = top + t * (low - top);
}

torch::Tensor sample(torch::Tensor x, torch::Tensor grid) {
    const int C = x.size(1), points = grid.size(1) * grid.size(2);
    auto y = torch::empty({x.size(0), C, grid.size(1), grid.size(2)}, x.options());
    dim3 blocks((points + 31) / 32, C, x.size(0));
    sample_reflected<<<blocks, 32>>>(x.data_ptr<float>(), grid.data_ptr<float>(), y.data_ptr<float>(), C, x.size(2),
                                     x.size(3), points);
    return y;
}
"""

reflected = load_inline(
    name="sample_reflected",
    cpp_sources="torch::Tensor sample(torch::Tensor x, torch::Tensor grid);",
    cuda_sources=source,
    functions=["sample"],
)


class ModelNew(nn.Module):
    def forward(self, x, grid):
        return reflected.sample(x.contiguous(), grid.contiguous())
