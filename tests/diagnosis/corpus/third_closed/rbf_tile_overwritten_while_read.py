# about = "No barrier after a tile of centres has been used: fast warps load the next tile while slow ones still read this one."
# section = "run"
# problem = "rbf_interpolation"
# causes = ["shared-race", "not-deterministic"]
# says = ["race|barrier|syncthreads|order|determin"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <ATen/cuda/CUDAContext.h>

#define TILE 8
#define MAX_WIDTH 8
#define MAX_VALUES 8

__global__ void tiled_rbf(const float* __restrict__ x, const float* __restrict__ centres, const float* __restrict__ log_rate,
                          const float* __restrict__ values, float* __restrict__ y, int n, int m, int width, int outs) {
    __shared__ float c[TILE][MAX_WIDTH];
    __shared__ float v[TILE][MAX_VALUES];
    __shared__ float rate[TILE];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float p[MAX_WIDTH], acc[MAX_VALUES];
    for (int k = 0; k < width; ++k) p[k] = i < n ? x[i * width + k] : 0.f;
    for (int o = 0; o < outs; ++o) acc[o] = 0.f;
    float total = 0.f;
    for (int start = 0; start < m; start += TILE) {
        const int rows = min(TILE, m - start);
        for (int t = threadIdx.x; t < rows * width; t += blockDim.x) c[t / width][t % width] = centres[start * width + t];
        for (int t = threadIdx.x; t < rows * outs; t += blockDim.x) v[t / outs][t % outs] = values[start * outs + t];
        if (threadIdx.x < rows) rate[threadIdx.x] = expf(log_rate[start + threadIdx.x]);
        __syncthreads();
        for (int r = 0; r < rows; ++r) {
            float d2 = 0.f;
            for (int k = 0; k < width; ++k) {
                const float d = p[k] - c[r][k];
                d2 += d * d;
            }
            const float w = expf(-d2 * rate[r]);
            total += w;
            for (int o = 0; o < outs; ++o) acc[o] += w * v[r][o];
        }
    }
    if (i < n)
        for (int o = 0; o < outs; ++o) y[i * outs + o] = acc[o] / (total + 0.01f);
}

torch::Tensor tiled_rbf_forward(torch::Tensor x, torch::Tensor centres, torch::Tensor log_rate, torch::Tensor values) {
    const int n = x.size(0), width = x.size(1), m = centres.size(0), outs = values.size(1);
    TORCH_CHECK(width <= MAX_WIDTH && outs <= MAX_VALUES, "too wide");
    auto y = torch::empty({n, outs}, x.options());
    tiled_rbf<<<(n + 63) / 64, 64, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), centres.data_ptr<float>(), log_rate.data_ptr<float>(), values.data_ptr<float>(), y.data_ptr<float>(), n, m,
        width, outs);
    return y;
}
"""

tiled = load_inline(
    name="tiled_rbf",
    cpp_sources="torch::Tensor tiled_rbf_forward(torch::Tensor x, torch::Tensor centres, torch::Tensor log_rate, torch::Tensor values);",
    cuda_sources=cuda_src,
    functions=["tiled_rbf_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, centres, width, values):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(centres, width))
        self.log_rate = nn.Parameter(torch.randn(centres) * 0.3 - 1)
        self.values = nn.Parameter(torch.randn(centres, values))

    def forward(self, x):
        return tiled.tiled_rbf_forward(x.contiguous(), self.centres, self.log_rate, self.values)
