# about = "Right: tables of taps for rows and columns once, then two separable passes per plane."
# section = "right"
# problem = "bicubic_then_area"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__device__ float4 taps(float t) {
    // by Horner, A = -3/4, distances 1 + t, t, 1 - t, 2 - t
    const float u = 1.f - t;
    float4 w;
    w.x = -0.75f * t * u * u;
    w.y = 1.f + t * t * (1.25f * t - 2.25f);
    w.z = 1.f + u * u * (1.25f * u - 2.25f);
    w.w = -0.75f * u * t * t;
    return w;
}

__global__ void table(float4* w, int* first, int in, int out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= out) return;
    const int at = i * (in - 1), whole = at / (out - 1);
    first[i] = whole - 1;
    w[i] = taps((float)(at - whole * (out - 1)) / (float)(out - 1));
}

__global__ void two_passes(const float* __restrict__ x, const float4* __restrict__ wy, const float4* __restrict__ wx, const int* __restrict__ fy,
                           const int* __restrict__ fx, float* __restrict__ up, float* __restrict__ low, int H, int W, int LH, int LW, int SH, int SW) {
    extern __shared__ float rows[];           // H x LW, then LH x LW
    float* all = rows + H * LW;
    const size_t plane = blockIdx.x;
    for (int i = threadIdx.x; i < H * LW; i += blockDim.x) {
        const float* in = x + plane * H * W + i / LW * W;
        const int f = fx[i % LW];
        const float4 w = wx[i % LW];
        rows[i] = w.x * in[max(f, 0)] + w.y * in[f + 1] + w.z * in[min(f + 2, W - 1)] + w.w * in[min(f + 3, W - 1)];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < LH * LW; i += blockDim.x) {
        const int c = i % LW, f = fy[i / LW];
        const float4 w = wy[i / LW];
        const float v = w.x * rows[max(f, 0) * LW + c] + w.y * rows[(f + 1) * LW + c] + w.z * rows[min(f + 2, H - 1) * LW + c] +
                        w.w * rows[min(f + 3, H - 1) * LW + c];
        all[i] = fminf(1.5f, fmaxf(-1.f, v));
        up[plane * LH * LW + i] = all[i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SH * SW; i += blockDim.x) {
        float acc = 0.f;
        int n = 0;
        for (int r = i / SW * LH / SH; r * SH < (i / SW + 1) * LH; ++r)
            for (int c = i % SW * LW / SW; c * SW < (i % SW + 1) * LW; ++c, ++n) acc += all[r * LW + c];
        low[plane * SH * SW + i] = acc / n;
    }
}

std::vector<torch::Tensor> resized(torch::Tensor x, int64_t LH, int64_t LW, int64_t SH, int64_t SW) {
    const int H = x.size(2), W = x.size(3);
    auto up = torch::empty({x.size(0), x.size(1), LH, LW}, x.options());
    auto low = torch::empty({x.size(0), x.size(1), SH, SW}, x.options());
    auto wy = torch::empty({LH, 4}, x.options()), wx = torch::empty({LW, 4}, x.options());
    auto fy = torch::empty({LH}, x.options().dtype(torch::kInt32)), fx = torch::empty({LW}, x.options().dtype(torch::kInt32));
    auto s = at::cuda::getCurrentCUDAStream();
    float4* a = reinterpret_cast<float4*>(wy.data_ptr<float>());
    float4* b = reinterpret_cast<float4*>(wx.data_ptr<float>());
    table<<<1, 32, 0, s>>>(a, fy.data_ptr<int>(), H, LH);
    table<<<1, 32, 0, s>>>(b, fx.data_ptr<int>(), W, LW);
    two_passes<<<x.size(0) * x.size(1), 128, (H + LH) * LW * sizeof(float), s>>>(x.data_ptr<float>(), a, b, fy.data_ptr<int>(), fx.data_ptr<int>(),
        up.data_ptr<float>(), low.data_ptr<float>(), H, W, LH, LW, SH, SW);
    return {up, low};
}
"""
ext = load_inline("resized_by_tables", cpp_sources="std::vector<torch::Tensor> resized(torch::Tensor x, int64_t LH, int64_t LW, int64_t SH, int64_t SW);",
                  cuda_sources=SRC, functions=["resized"])


class ModelNew(nn.Module):
    def __init__(self, large, small):
        super().__init__()
        self.sizes = (*large, *small)

    def forward(self, x):
        up, low = ext.resized(x.contiguous(), *self.sizes)
        return up, low
