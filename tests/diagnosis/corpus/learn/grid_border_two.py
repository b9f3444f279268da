# about = "Places as with align_corners=False, and every sample uses the first sample's grid."
# section = "mismatch"
# problem = "grid_sample_border"
# faults = [{causes = ["align-corners", "wrong-coordinate"], says = ["align|corner|half|cent|coordinate"]}, {causes = ["first-batch-only", "index-ignored", "keepdim-broadcast"], says = ["batch|sample|first"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__device__ __forceinline__ float place(float g, int n) {
    float p = ((g + 1.f) * n - 1.f) / 2.f;
    return fminf(fmaxf(p, 0.f), n - 1.f);
}

__global__ void sample_border(const float* __restrict__ x, const float* __restrict__ grid, float* __restrict__ y,
                              int total, int C, int H, int W, int OH, int OW) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        const int pixel = i % (OH * OW);
        const int plane = i / (OH * OW);
        const float ix = place(grid[2 * pixel], W);
        const float iy = place(grid[2 * pixel + 1], H);
        const int x0 = (int)ix, y0 = (int)iy;
        const int x1 = min(x0 + 1, W - 1), y1 = min(y0 + 1, H - 1);
        const float fx = ix - x0, fy = iy - y0;
        const float* p = x + (size_t)plane * H * W;
        const float nw = p[y0 * W + x0] * (1.f - fx) * (1.f - fy);
        const float ne = p[y0 * W + x1] * fx * (1.f - fy);
        const float sw = p[y1 * W + x0] * (1.f - fx) * fy;
        const float se = p[y1 * W + x1] * fx * fy;
        y[i] = (nw + ne) + (sw + se);
    }
}

torch::Tensor sample_border_forward(torch::Tensor x, torch::Tensor grid) {
    const int C = x.size(1), H = x.size(2), W = x.size(3), OH = grid.size(1), OW = grid.size(2);
    auto y = torch::empty({x.size(0), C, OH, OW}, x.options());
    sample_border<<<4, 128>>>(x.data_ptr<float>(), grid.data_ptr<float>(), y.data_ptr<float>(), y.numel(), C, H, W, OH,
                              OW);
    return y;
}
"""

sample_ext = load_inline(
    name="sample_border",
    cpp_sources="torch::Tensor sample_border_forward(torch::Tensor x, torch::Tensor grid);",
    cuda_sources=source,
    functions=["sample_border_forward"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, grid):
        return sample_ext.sample_border_forward(x.contiguous(), grid.contiguous())
