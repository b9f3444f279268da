import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

pw_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// Block: 32 pixels x 8 thread rows; every thread makes 4 output channels of one pixel.
#define PIX 32
#define ROWS 8
#define OCT 4
#define KC 16

__global__ void pw_relu6(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                         int Cin, int Cout, int HW) {
    __shared__ float xs[KC][PIX];
    __shared__ float ws[ROWS * OCT][KC + 1];
    const int pix = blockIdx.x * PIX + threadIdx.x;
    const int oc0 = blockIdx.y * ROWS * OCT;
    const float* xn = x + (size_t)blockIdx.z * Cin * HW;
    float acc[OCT] = {0.f, 0.f, 0.f, 0.f};
    const int tid = threadIdx.y * PIX + threadIdx.x;
    for (int k0 = 0; k0 < Cin; k0 += KC) {
        for (int k = threadIdx.y; k < KC; k += ROWS)
            xs[k][threadIdx.x] = (pix < HW && k0 + k < Cin) ? xn[(size_t)(k0 + k) * HW + pix] : 0.f;
        for (int e = tid; e < ROWS * OCT * KC; e += PIX * ROWS) {
            int o = e / KC, k = e % KC;
            ws[o][k] = (oc0 + o < Cout && k0 + k < Cin) ? w[(oc0 + o) * Cin + k0 + k] : 0.f;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < KC; ++k) {
            float v = xs[k][threadIdx.x];
            #pragma unroll
            for (int j = 0; j < OCT; ++j) acc[j] += v * ws[threadIdx.y * OCT + j][k];
        }
        __syncthreads();
    }
    if (pix < HW) {
        for (int j = 0; j < OCT; ++j) {
            int oc = oc0 + threadIdx.y * OCT + j;
            if (oc < Cout) y[((size_t)blockIdx.z * Cout + oc) * HW + pix] = fminf(fmaxf(acc[j], 0.f), 6.f);
        }
    }
}

torch::Tensor pointwise_relu6(torch::Tensor x, torch::Tensor w) {
    auto xc = x.contiguous();
    auto wc = w.contiguous();
    int N = xc.size(0), Cin = xc.size(1), H = xc.size(2), W = xc.size(3), Cout = wc.size(0);
    auto y = torch::empty({N, Cout, H, W}, xc.options());
    dim3 grid((H * W + PIX - 1) / PIX, (Cout + ROWS * OCT - 1) / (ROWS * OCT), N);
    pw_relu6<<<grid, dim3(PIX, ROWS), 0, at::cuda::getCurrentCUDAStream()>>>(
        xc.data_ptr<float>(), wc.data_ptr<float>(), y.data_ptr<float>(), Cin, Cout, H * W);
    return y;
}
"""

_cache = {}


def get_ext():
    if "m" not in _cache:
        _cache["m"] = load_inline(
            name="pw_relu6_ext",
            cpp_sources="torch::Tensor pointwise_relu6(torch::Tensor x, torch::Tensor w);",
            cuda_sources=pw_src,
            functions=["pointwise_relu6"],
            extra_cuda_cflags=["-O3"],
        )
    return _cache["m"]


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=False)

    def forward(self, x):
        return get_ext().pointwise_relu6(x, self.conv.weight)
