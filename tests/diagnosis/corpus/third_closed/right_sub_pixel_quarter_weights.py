# about = "Right: written by coarse pixels; for a factor of two the linear weights are quarters, so no place is computed."
# section = "right"
# problem = "sub_pixel_residual"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void by_quarters(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ out,
                            float slope, int C, int H, int W, int total) {
    // a thread for a coarse pixel of a channel: it writes four fine ones
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        const int v = i % W, h = i / W % H, c = i / (W * H) % C, n = i / (W * H * C);
        float4 acc = make_float4(b[c * 4], b[c * 4 + 1], b[c * 4 + 2], b[c * 4 + 3]);
        for (int ic = 0; ic < C; ++ic)
            for (int t = 0; t < 9; ++t) {
                const int y = h + t / 3 - 1, z = v + t % 3 - 1;
                if (y < 0 || z < 0 || y >= H || z >= W) continue;
                const float s = x[((n * C + ic) * H + y) * W + z];
                const float* f = w + (c * 4 * C + ic) * 9 + t;
                acc.x = fmaf(s, f[0], acc.x);
                acc.y = fmaf(s, f[C * 9], acc.y);
                acc.z = fmaf(s, f[2 * C * 9], acc.z);
                acc.w = fmaf(s, f[3 * C * 9], acc.w);
            }
        const float detail[4] = {acc.x, acc.y, acc.z, acc.w};
        const float* p = x + (size_t)(n * C + c) * H * W;
        for (int k = 0; k < 4; ++k) {
            const int y = min(max(h + (k / 2 ? 1 : -1), 0), H - 1), z = min(max(v + (k % 2 ? 1 : -1), 0), W - 1);
            const float base = (9.f * p[h * W + v] + 3.f * (p[y * W + v] + p[h * W + z]) + p[y * W + z]) * 0.0625f;
            out[((size_t)(n * C + c) * 2 * H + 2 * h + k / 2) * 2 * W + 2 * v + k % 2] = base + fmaxf(detail[k], 0.f) + slope * fminf(detail[k], 0.f);
        }
    }
}

torch::Tensor doubled(torch::Tensor x, torch::Tensor w, torch::Tensor b, double slope) {
    const int C = x.size(1), H = x.size(2), W = x.size(3);
    TORCH_CHECK(w.size(0) == 4 * C, "doubles only");
    auto out = torch::empty({x.size(0), C, 2 * H, 2 * W}, x.options());
    by_quarters<<<4, 96, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(),
                                                                (float)slope, C, H, W, x.numel());
    return out;
}
"""
ext = load_inline("doubled_by_quarters", cpp_sources="torch::Tensor doubled(torch::Tensor x, torch::Tensor w, torch::Tensor b, double slope);",
                  cuda_sources=SRC, functions=["doubled"])


class ModelNew(nn.Module):
    def __init__(self, channels, factor, slope):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels * factor * factor, 3, padding=1)
        self.slope = slope

    def forward(self, x):
        return ext.doubled(x.contiguous(), self.conv.weight, self.conv.bias, self.slope)
