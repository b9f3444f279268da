import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

film_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>

// 8 halves per load; a block stays inside one (n, c) plane
__global__ void film_vec8(const uint4* __restrict__ x, const __half* __restrict__ sc, const __half* __restrict__ sh,
                          uint4* __restrict__ y, int hw8) {
    const __half2 a = __half2half2(sc[blockIdx.x]);
    const __half2 b = __half2half2(sh[blockIdx.x]);
    const size_t base = (size_t)blockIdx.x * hw8;
    for (int i = threadIdx.x; i < hw8; i += blockDim.x) {
        uint4 raw = x[base + i];
        __half2* h = reinterpret_cast<__half2*>(&raw);
        #pragma unroll
        for (int k = 0; k < 4; ++k) h[k] = __hfma2(h[k], a, b);
        y[base + i] = raw;
    }
}

__global__ void film_scalar(const __half* __restrict__ x, const __half* __restrict__ sc, const __half* __restrict__ sh,
                            __half* __restrict__ y, int hw) {
    const size_t base = (size_t)blockIdx.x * hw;
    for (int i = threadIdx.x; i < hw; i += blockDim.x) y[base + i] = __hfma(x[base + i], sc[blockIdx.x], sh[blockIdx.x]);
}

torch::Tensor film(torch::Tensor x, torch::Tensor scale, torch::Tensor shift) {
    TORCH_CHECK(x.scalar_type() == torch::kHalf, "float16 input");
    auto xc = x.contiguous(); auto a = scale.contiguous(); auto b = shift.contiguous();
    auto y = torch::empty_like(xc);
    const int planes = a.numel();
    const int hw = xc.numel() / planes;
    auto s = at::cuda::getCurrentCUDAStream();
    auto ap = reinterpret_cast<const __half*>(a.data_ptr<at::Half>());
    auto bp = reinterpret_cast<const __half*>(b.data_ptr<at::Half>());
    if (hw % 8 == 0 && reinterpret_cast<uintptr_t>(xc.data_ptr()) % 16 == 0)
        film_vec8<<<planes, 128, 0, s>>>(reinterpret_cast<const uint4*>(xc.data_ptr()), ap, bp,
                                         reinterpret_cast<uint4*>(y.data_ptr()), hw / 8);
    else
        film_scalar<<<planes, 128, 0, s>>>(reinterpret_cast<const __half*>(xc.data_ptr()), ap, bp,
                                           reinterpret_cast<__half*>(y.data_ptr()), hw);
    return y;
}
"""

film = load_inline(name="film_half", cpp_sources="torch::Tensor film(torch::Tensor x, torch::Tensor scale, torch::Tensor shift);",
                   cuda_sources=film_src, functions=["film"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, scale, shift):
        return film.film(x, scale, shift)
