# about = "A right answer: a tile with its halo in shared memory, the divisor from the padded edge."
# section = "right"
# problem = "avg_pool_ceil"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

#define T 4
#define SPAN (2 * T + 1)

__global__ void avg_tile_kernel(const float* __restrict__ x, float* __restrict__ y, int H, int W, int OH, int OW) {
    __shared__ float tile[SPAN][SPAN + 1];
    const int top = blockIdx.y * T * 2 - 1, left = blockIdx.x * T * 2 - 1;
    const float* plane = x + (size_t)blockIdx.z * H * W;
    for (int i = threadIdx.y * T + threadIdx.x; i < SPAN * SPAN; i += T * T) {
        const int r = top + i / SPAN, c = left + i % SPAN;
        tile[i / SPAN][i % SPAN] = (r >= 0 && r < H && c >= 0 && c < W) ? plane[(size_t)r * W + c] : 0.f;
    }
    __syncthreads();
    const int oy = blockIdx.y * T + threadIdx.y, ox = blockIdx.x * T + threadIdx.x;
    if (oy >= OH || ox >= OW) return;
    float column[3];
    for (int c = 0; c < 3; ++c)
        column[c] = tile[2 * threadIdx.y][2 * threadIdx.x + c] + tile[2 * threadIdx.y + 1][2 * threadIdx.x + c] +
                    tile[2 * threadIdx.y + 2][2 * threadIdx.x + c];
    const int rows = min(2 * oy + 2, H + 1) - (2 * oy - 1);
    const int cols = min(2 * ox + 2, W + 1) - (2 * ox - 1);
    y[((size_t)blockIdx.z * OH + oy) * OW + ox] = (column[0] + column[1] + column[2]) / (float)(rows * cols);
}

torch::Tensor avg_tile(torch::Tensor x) {
    const int H = x.size(2), W = x.size(3);
    const int OH = (H + 2 - 3 + 1) / 2 + 1, OW = (W + 2 - 3 + 1) / 2 + 1;
    auto y = torch::empty({x.size(0), x.size(1), OH, OW}, x.options());
    dim3 grid((OW + T - 1) / T, (OH + T - 1) / T, x.size(0) * x.size(1));
    avg_tile_kernel<<<grid, dim3(T, T)>>>(x.data_ptr<float>(), y.data_ptr<float>(), H, W, OH, OW);
    return y;
}
"""

avg_tile = load_inline(
    name="avg_tile",
    cpp_sources="torch::Tensor avg_tile(torch::Tensor x);",
    cuda_sources=cuda_src,
    functions=["avg_tile"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return avg_tile.avg_tile(x.contiguous())
