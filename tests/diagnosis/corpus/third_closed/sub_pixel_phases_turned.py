# about = "Within a pixel rows and columns of the fine grid are exchanged when the channels are laid out."
# section = "mismatch"
# problem = "sub_pixel_residual"
# causes = ["coordinates-swapped", "layout-misread", "wrong-channel", "transposed-operand", "inverse-permutation"]
# says = ["swap|exchang|transpos|row|column|order|channel|shuffle|layout|permut|axes|coordinate"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void conv_act(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ y,
                         const float slope, const int C, const int H, const int W) {
    extern __shared__ float tile[];                       // C planes with a border of one
    const int PH = H + 2, PW = W + 2, oc = blockIdx.x, n = blockIdx.y;
    for (int i = threadIdx.x; i < C * PH * PW; i += blockDim.x) {
        const int c = i / (PH * PW), h = i / PW % PH - 1, v = i % PW - 1;
        tile[i] = (h < 0 || v < 0 || h >= H || v >= W) ? 0.f : x[((n * C + c) * H + h) * W + v];
    }
    __syncthreads();
    for (int p = threadIdx.x; p < H * W; p += blockDim.x) {
        float acc = b[oc];
        for (int c = 0; c < C; ++c)
            #pragma unroll
            for (int k = 0; k < 9; ++k) acc = fmaf(tile[(c * PH + p / W + k / 3) * PW + p % W + k % 3], w[(oc * C + c) * 9 + k], acc);
        y[((size_t)n * gridDim.x + oc) * H * W + p] = acc >= 0.f ? acc : acc * slope;
    }
}

__global__ void shuffle_add(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out, const int C, const int H, const int W, const int r) {
    const int OH = H * r, OW = W * r;
    const int ox = blockIdx.x * blockDim.x + threadIdx.x, oy = blockIdx.y, plane = blockIdx.z;
    if (ox >= OW) return;
    const int c = plane % C, n = plane / C;
    const int phase = (ox % r) * r + oy % r;
    const float detail = y[(((size_t)n * C * r * r + c * r * r + phase) * H + oy / r) * W + ox / r];
    const float fy = fmaxf(0.f, (oy + 0.5f) / r - 0.5f), fx = fmaxf(0.f, (ox + 0.5f) / r - 0.5f);
    const int y0 = (int)fy, x0 = (int)fx, dy = y0 < H - 1 ? W : 0, dx = x0 < W - 1 ? 1 : 0;
    const float* q = x + ((size_t)plane * H + y0) * W + x0;
    const float a = q[0] + (fx - x0) * (q[dx] - q[0]), e = q[dy] + (fx - x0) * (q[dy + dx] - q[dy]);
    out[((size_t)plane * OH + oy) * OW + ox] = detail + a + (fy - y0) * (e - a);
}

torch::Tensor enlarge(torch::Tensor x, torch::Tensor w, torch::Tensor b, int64_t r, double slope) {
    const int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3), OC = w.size(0);
    auto s = at::cuda::getCurrentCUDAStream();
    auto y = torch::empty({N, OC, H, W}, x.options());
    auto out = torch::empty({N, C, H * r, W * r}, x.options());
    conv_act<<<dim3(OC, N), 64, C * (H + 2) * (W + 2) * sizeof(float), s>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
                                                                            y.data_ptr<float>(), (float)slope, C, H, W);
    shuffle_add<<<dim3((W * r + 31) / 32, H * r, N * C), 32, 0, s>>>(x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), C, H, W, r);
    return out;
}
"""
ext = load_inline("enlarge_two_kernels", cpp_sources="torch::Tensor enlarge(torch::Tensor x, torch::Tensor w, torch::Tensor b, int64_t r, double slope);",
                  cuda_sources=SRC, functions=["enlarge"])


class ModelNew(nn.Module):
    def __init__(self, channels, factor, slope):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels * factor * factor, 3, padding=1)
        self.factor, self.slope = factor, slope

    def forward(self, x):
        return ext.enlarge(x.contiguous(), self.conv.weight, self.conv.bias, self.factor, self.slope)
