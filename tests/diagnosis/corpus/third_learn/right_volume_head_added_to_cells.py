# about = "Right: every point of the convolution adds its part to each cell that covers it, weighted beforehand."
# section = "right"
# problem = "volume_head"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__device__ __forceinline__ int first(int i, int n, int g) { return i * n / g; }
__device__ __forceinline__ int after(int i, int n, int g) { return ((i + 1) * n + g - 1) / g; }

__global__ void point_to_cells(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
                               float* __restrict__ y, int C, int O, int per, int D, int H, int W, int gd, int gh, int gw) {
    extern __shared__ float cells[];
    const int o = blockIdx.x, n = blockIdx.y, OW = W - 1, size = gd * gh * gw;
    for (int i = threadIdx.x; i < size; i += blockDim.x) cells[i] = 0.f;
    __syncthreads();
    const int group = o / (O / (C / per));
    const float* in = x + ((size_t)n * C + group * per) * D * H * W;
    const float* f = w + (size_t)o * per * 18;
    for (int p = threadIdx.x; p < D * H * OW; p += blockDim.x) {
        const int ow = p % OW, oh = p / OW % H, od = p / (OW * H);
        float acc = bias[o];
        for (int c = 0; c < per; ++c)
            for (int kd = max(0, 1 - od); kd < min(3, D + 1 - od); ++kd)
                for (int kh = 0; kh < 3; ++kh) {
                    const int h = oh + 2 * kh - 2;
                    if (h < 0 || h >= H) continue;
                    const float* row = in + ((c * D + od + kd - 1) * H + h) * W + ow;
                    const float* t = f + c * 18 + (kd * 3 + kh) * 2;
                    acc += row[0] * t[0] + row[1] * t[1];
                }
        acc = fminf(fmaxf(acc, -0.5f), 1.f);
        for (int a = 0; a < gd; ++a) {
            if (od < first(a, D, gd) || od >= after(a, D, gd)) continue;
            for (int b = 0; b < gh; ++b) {
                if (oh < first(b, H, gh) || oh >= after(b, H, gh)) continue;
                for (int c = 0; c < gw; ++c)
                    if (ow >= first(c, OW, gw) && ow < after(c, OW, gw)) atomicAdd(&cells[(a * gh + b) * gw + c], acc);
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        const int c = i % gw, b = i / gw % gh, a = i / (gw * gh);
        const int count = (after(a, D, gd) - first(a, D, gd)) * (after(b, H, gh) - first(b, H, gh)) * (after(c, OW, gw) - first(c, OW, gw));
        y[((size_t)n * O + o) * size + i] = cells[i] / count;
    }
}

torch::Tensor to_cells(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int64_t gd, int64_t gh, int64_t gw) {
    const int O = w.size(0);
    auto y = torch::empty({x.size(0), O, gd, gh, gw}, x.options());
    point_to_cells<<<dim3(O, x.size(0)), 160, gd * gh * gw * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(),
        w.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), x.size(1), O, w.size(1), x.size(2), x.size(3), x.size(4), gd, gh, gw);
    return y;
}
"""
ext = load_inline("points_to_cells", cpp_sources="torch::Tensor to_cells(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int64_t gd, int64_t gh, int64_t gw);",
                  cuda_sources=SRC, functions=["to_cells"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups, grid):
        super().__init__()
        self.conv = nn.Conv3d(inner, outer, (3, 3, 2), padding=(1, 2, 0), dilation=(1, 2, 1), groups=groups)
        self.grid = grid

    def forward(self, x):
        return ext.to_cells(x.contiguous(), self.conv.weight, self.conv.bias, *self.grid)
