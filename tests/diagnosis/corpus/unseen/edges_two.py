# about = "Outside lies zero, and the middle of the filters is one where it is two."
# section = "mismatch"
# problem = "sobel_edges"
# faults = [{causes = ["padding-mode", "wrong-fill-value", "padding-ignored"], says = ["pad|border|edge|replicat|zero|fill|outside"]}, {causes = ["wrong-coefficient", "weight-ignored", "scale-missing"], says = ["coefficient|filter|weight|constant|factor|scale|kernel"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

edge_source = r"""
#include <torch/extension.h>
#define TILE 8

__global__ void edges(const float* __restrict__ img, float* __restrict__ mag, int h, int w) {
    __shared__ float tile[TILE + 2][TILE + 2];
    const float* p = img + (size_t)blockIdx.z * h * w;
    const int x0 = blockIdx.x * TILE - 1, y0 = blockIdx.y * TILE - 1;
    for (int i = threadIdx.y * TILE + threadIdx.x; i < (TILE + 2) * (TILE + 2); i += TILE * TILE) {
        int ty = i / (TILE + 2), tx = i % (TILE + 2);
        int yy = y0 + ty, xx = x0 + tx;
        tile[ty][tx] = (yy >= 0 && yy < h && xx >= 0 && xx < w) ? p[yy * w + xx] : 0.0f;
    }
    __syncthreads();
    const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x >= w || y >= h) return;
    const int i = threadIdx.y, j = threadIdx.x;
    float gx = 0.0f, gy = 0.0f;
    for (int k = 0; k < 3; ++k) {
        gx += tile[i + k][j + 2] - tile[i + k][j];
        gy += tile[i + 2][j + k] - tile[i][j + k];
    }
    mag[(size_t)blockIdx.z * h * w + y * w + x] = sqrtf(gx * gx + gy * gy + 1e-4f);
}

torch::Tensor edge_strength(torch::Tensor img) {
    auto mag = torch::empty_like(img);
    const int n = img.size(0), h = img.size(1), w = img.size(2);
    dim3 block(TILE, TILE), grid((w + TILE - 1) / TILE, (h + TILE - 1) / TILE, n);
    edges<<<grid, block>>>(img.data_ptr<float>(), mag.data_ptr<float>(), h, w);
    return mag;
}
"""

edge_ext = load_inline(
    name="edge_ext",
    cpp_sources="torch::Tensor edge_strength(torch::Tensor img);",
    cuda_sources=edge_source,
    functions=["edge_strength"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return edge_ext.edge_strength(x.contiguous())
