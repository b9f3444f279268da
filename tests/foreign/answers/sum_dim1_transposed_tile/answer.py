import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

sum_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// inner > 1: 32 columns per block, 8 threads share a column
__global__ void sum_cols(const float* __restrict__ x, float* __restrict__ y, int len, int64_t inner) {
    __shared__ float part[8][33];
    const int64_t col = (int64_t)blockIdx.x * 32 + threadIdx.x;
    const int64_t o = blockIdx.y;
    float acc = 0.f;
    if (col < inner)
        for (int r = threadIdx.y; r < len; r += 8) acc += x[(o * len + r) * inner + col];
    part[threadIdx.y][threadIdx.x] = acc;
    __syncthreads();
    if (threadIdx.y == 0 && col < inner) {
        float s = 0.f;
        #pragma unroll
        for (int k = 0; k < 8; ++k) s += part[k][threadIdx.x];
        y[o * inner + col] = s;
    }
}

// inner == 1: a warp per row
__global__ void sum_rows(const float* __restrict__ x, float* __restrict__ y, int64_t rows, int len) {
    const int64_t row = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= rows) return;
    const int lane = threadIdx.x % 32;
    float acc = 0.f;
    for (int c = lane; c < len; c += 32) acc += x[row * len + c];
    for (int d = 16; d > 0; d >>= 1) acc += __shfl_down_sync(0xffffffffu, acc, d);
    if (lane == 0) y[row] = acc;
}

torch::Tensor sum_keepdim(torch::Tensor x, int64_t dim) {
    auto xc = x.contiguous();
    if (dim < 0) dim += xc.dim();
    int64_t outer = 1, inner = 1;
    auto shape = xc.sizes().vec();
    const int len = shape[dim];
    for (int64_t d = 0; d < dim; ++d) outer *= shape[d];
    for (int64_t d = dim + 1; d < (int64_t)shape.size(); ++d) inner *= shape[d];
    shape[dim] = 1;
    auto y = torch::empty(shape, xc.options());
    auto st = at::cuda::getCurrentCUDAStream();
    if (inner == 1) {
        sum_rows<<<(outer * 32 + 255) / 256, 256, 0, st>>>(xc.data_ptr<float>(), y.data_ptr<float>(), outer, len);
    } else {
        TORCH_CHECK(outer <= 65535, "outer size too large for grid.y");
        sum_cols<<<dim3((inner + 31) / 32, outer), dim3(32, 8), 0, st>>>(xc.data_ptr<float>(), y.data_ptr<float>(), len, inner);
    }
    return y;
}
"""

sum_ext = load_inline(name="sum_keepdim_ext", cpp_sources="torch::Tensor sum_keepdim(torch::Tensor x, int64_t dim);",
                      cuda_sources=sum_src, functions=["sum_keepdim"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sum_ext.sum_keepdim(x, self.dim)
