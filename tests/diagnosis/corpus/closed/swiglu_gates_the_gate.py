# about = "SiLU is applied to the other projection."
# section = "mismatch"
# problem = "swiglu"
# causes = ["operands-swapped"]
# says = ["swap|exchang|place|operand|other|gate|order"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

swiglu_cuda = r"""
#define TILE 16

__global__ void swiglu_kernel(const float* x, const float* wg, const float* wu, float* y, int rows, int width, int hidden) {
    __shared__ float xs[TILE][TILE], gs[TILE][TILE + 1], us[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    int wrow = blockIdx.x * TILE + threadIdx.y;
    float g = 0.f, u = 0.f;
    for (int k0 = 0; k0 < width; k0 += TILE) {
        int k = k0 + threadIdx.x;
        xs[threadIdx.y][threadIdx.x] = row < rows && k < width ? x[row * width + k] : 0.f;
        gs[threadIdx.y][threadIdx.x] = wrow < hidden && k < width ? wg[wrow * width + k] : 0.f;
        us[threadIdx.y][threadIdx.x] = wrow < hidden && k < width ? wu[wrow * width + k] : 0.f;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) {
            g += xs[threadIdx.y][i] * gs[threadIdx.x][i];
            u += xs[threadIdx.y][i] * us[threadIdx.x][i];
        }
        __syncthreads();
    }
    if (row < rows && col < hidden) y[row * hidden + col] = g * (u / (1.f + expf(-u)));
}

torch::Tensor swiglu(torch::Tensor x, torch::Tensor wg, torch::Tensor wu) {
    int rows = x.size(0), width = x.size(1), hidden = wg.size(0);
    auto y = torch::empty({rows, hidden}, x.options());
    dim3 block(TILE, TILE), grid((hidden + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
    swiglu_kernel<<<grid, block>>>(x.data_ptr<float>(), wg.data_ptr<float>(), wu.data_ptr<float>(), y.data_ptr<float>(), rows, width, hidden);
    return y;
}
"""

swiglu = load_inline(
    name="swiglu",
    cpp_sources="torch::Tensor swiglu(torch::Tensor x, torch::Tensor wg, torch::Tensor wu);",
    cuda_sources=swiglu_cuda,
    functions=["swiglu"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        return swiglu.swiglu(x.contiguous(), self.gate.weight, self.up.weight)
