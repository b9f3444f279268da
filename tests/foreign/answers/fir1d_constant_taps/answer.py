import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

fir_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

#define MAX_TAPS 128
#define BLOCK 256

__constant__ float c_taps[MAX_TAPS];

__global__ void fir_kernel(const float* __restrict__ x, float* __restrict__ y, int T, int OT, int taps, int pad) {
    __shared__ float seg[BLOCK + MAX_TAPS];
    const size_t row = blockIdx.y + (size_t)blockIdx.z * gridDim.y;
    const float* src = x + row * T;
    const int start = blockIdx.x * BLOCK;
    for (int i = threadIdx.x; i < BLOCK + taps - 1; i += BLOCK) {
        const int t = start + i - pad;
        seg[i] = (t >= 0 && t < T) ? src[t] : 0.f;
    }
    __syncthreads();
    const int o = start + threadIdx.x;
    if (o < OT) {
        float acc = 0.f;
        for (int k = 0; k < taps; ++k) acc += seg[threadIdx.x + k] * c_taps[k];
        y[row * OT + o] = acc;
    }
}

torch::Tensor fir_forward(torch::Tensor x, torch::Tensor h) {
    TORCH_CHECK(x.dim() == 3, "expected (batch, channels, time)");
    auto xc = x.contiguous();
    auto hc = h.contiguous();
    const int taps = hc.numel();
    TORCH_CHECK(taps <= MAX_TAPS, "at most 128 taps");
    const int B = xc.size(0), C = xc.size(1), T = xc.size(2);
    const int pad = taps / 2;
    const int OT = T + 2 * pad - taps + 1;
    auto y = torch::empty({B, C, OT}, xc.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    C10_CUDA_CHECK(cudaMemcpyToSymbolAsync(c_taps, hc.data_ptr<float>(), taps * sizeof(float), 0,
                                           cudaMemcpyDeviceToDevice, stream));
    dim3 grid((OT + BLOCK - 1) / BLOCK, C, B);
    fir_kernel<<<grid, BLOCK, 0, stream>>>(xc.data_ptr<float>(), y.data_ptr<float>(), T, OT, taps, pad);
    return y;
}
"""

fir = load_inline(name="fir_lowpass", cpp_sources="torch::Tensor fir_forward(torch::Tensor x, torch::Tensor h);",
                  cuda_sources=fir_src, functions=["fir_forward"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, taps: int = 31):
        super().__init__()
        n = torch.arange(taps, dtype=torch.float32) - (taps - 1) / 2
        window = torch.hann_window(taps + 2, periodic=False)[1:-1]
        h = torch.sinc(0.25 * n) * window
        self.register_buffer("h", (h / h.sum()).view(1, 1, taps))

    def forward(self, x):
        return fir.fir_forward(x, self.h)
