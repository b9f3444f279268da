# about = "The grid's first number is taken for the row and its second for the column."
# section = "mismatch"
# problem = "grid_sample_zeros"
# causes = ["coordinates-swapped", "layout-misread", "operands-swapped"]
# says = ["swap|exchang|order|x and y|coordinate"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

grid_src = r"""
#include <torch/extension.h>

__global__ void grid_sample_kernel(const float* __restrict__ input, const float* __restrict__ grid,
                                   float* __restrict__ output, int N, int C, int H, int W, int OH, int OW) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N * OH * OW) return;
    int n = idx / (OH * OW);
    int pix = idx % (OH * OW);

    float gy = grid[idx * 2 + 0];
    float gx = grid[idx * 2 + 1];
    float ix = ((gx + 1.0f) * W - 1.0f) * 0.5f;
    float iy = ((gy + 1.0f) * H - 1.0f) * 0.5f;
    int x0 = (int)floorf(ix), y0 = (int)floorf(iy);
    float fx = ix - x0, fy = iy - y0;

    for (int c = 0; c < C; ++c) {
        const float* plane = input + ((size_t)n * C + c) * H * W;
        float acc = 0.0f;
        for (int dy = 0; dy < 2; ++dy) {
            for (int dx = 0; dx < 2; ++dx) {
                int yy = y0 + dy, xx = x0 + dx;
                if (yy < 0 || yy >= H || xx < 0 || xx >= W) continue;
                acc += (dy ? fy : 1.0f - fy) * (dx ? fx : 1.0f - fx) * plane[yy * W + xx];
            }
        }
        output[((size_t)n * C + c) * OH * OW + pix] = acc;
    }
}

torch::Tensor grid_sample(torch::Tensor input, torch::Tensor grid) {
    int N = input.size(0), C = input.size(1), H = input.size(2), W = input.size(3);
    int OH = grid.size(1), OW = grid.size(2);
    auto output = torch::empty({N, C, OH, OW}, input.options());
    int total = N * OH * OW;
    grid_sample_kernel<<<(total + 127) / 128, 128>>>(input.data_ptr<float>(), grid.data_ptr<float>(),
                                                     output.data_ptr<float>(), N, C, H, W, OH, OW);
    return output;
}
"""

sampler = load_inline(
    name="grid_sampler",
    cpp_sources="torch::Tensor grid_sample(torch::Tensor input, torch::Tensor grid);",
    cuda_sources=grid_src,
    functions=["grid_sample"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, grid):
        return sampler.grid_sample(x.contiguous(), grid.contiguous())
