# about = "The map is turned into one of pixels first, by one thread per sample; taps with weights of zero outside."
# section = "right"
# problem = "affine_warp"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void warp_kernel(const float* __restrict__ x, const float* __restrict__ theta, float* __restrict__ out,
                            int channels, int h, int w) {
    __shared__ float map[6];
    const int b = blockIdx.y;
    if (threadIdx.x == 0) {
        const float* t = theta + b * 6;
        const float kx = 2.f / (w - 1), ky = 2.f / (h - 1);
        const float hx = 0.5f * (w - 1), hy = 0.5f * (h - 1);
        map[0] = t[0] * kx * hx;
        map[1] = t[1] * ky * hx;
        map[2] = (t[2] - t[0] - t[1] + 1.f) * hx;
        map[3] = t[3] * kx * hy;
        map[4] = t[4] * ky * hy;
        map[5] = (t[5] - t[3] - t[4] + 1.f) * hy;
    }
    __syncthreads();
    const int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= h * w) return;
    const float j = p % w, i = p / w;
    const float px = map[0] * j + map[1] * i + map[2], py = map[3] * j + map[4] * i + map[5];
    const float fx = floorf(px), fy = floorf(py);
    float weight[4];
    int at[4];
    for (int k = 0; k < 4; ++k) {
        const float cx = fx + (k & 1), cy = fy + (k >> 1);
        const bool inside = cx >= 0.f && cx <= w - 1.f && cy >= 0.f && cy <= h - 1.f;
        weight[k] = inside ? (1.f - fabsf(px - cx)) * (1.f - fabsf(py - cy)) : 0.f;
        at[k] = inside ? (int)cy * w + (int)cx : 0;
    }
    for (int c = 0; c < channels; ++c) {
        const float* plane = x + (size_t)(b * channels + c) * h * w;
        float v = 0.f;
        for (int k = 3; k >= 0; --k) v = fmaf(weight[k], plane[at[k]], v);
        out[(size_t)(b * channels + c) * h * w + p] = v;
    }
}

torch::Tensor warp(torch::Tensor x, torch::Tensor theta) {
    auto out = torch::empty_like(x);
    const int area = x.size(2) * x.size(3);
    dim3 grid((area + 63) / 64, x.size(0));
    warp_kernel<<<grid, 64, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), theta.data_ptr<float>(),
                                                                   out.data_ptr<float>(), x.size(1), x.size(2),
                                                                   x.size(3));
    return out;
}
"""

warp_ext = load_inline(
    name="warp_pixels",
    cpp_sources="torch::Tensor warp(torch::Tensor x, torch::Tensor theta);",
    cuda_sources=cuda_source,
    functions=["warp"],
)


class ModelNew(nn.Module):
    def forward(self, x, theta):
        return warp_ext.warp(x.contiguous(), theta.contiguous())
