import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

rms_cuda = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <int BLOCK>
__global__ void __launch_bounds__(BLOCK) rms_half2_kernel(const __half2* __restrict__ x, const float* __restrict__ w,
                                                          __half2* __restrict__ y, int half_dim, float inv_dim, float eps) {
    __shared__ float partial[BLOCK / 32];
    __shared__ float scale_s;
    const size_t base = (size_t)blockIdx.x * half_dim;
    float ss = 0.f;
    for (int i = threadIdx.x; i < half_dim; i += BLOCK) {
        float2 f = __half22float2(x[base + i]);
        ss += f.x * f.x + f.y * f.y;
    }
    for (int o = 16; o; o >>= 1) ss += __shfl_down_sync(0xffffffff, ss, o);
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x / 32] = ss;
    __syncthreads();
    if (threadIdx.x == 0) {
        float t = 0.f;
        for (int k = 0; k < BLOCK / 32; ++k) t += partial[k];
        scale_s = rsqrtf(t * inv_dim + eps);
    }
    __syncthreads();
    const float sc = scale_s;
    for (int i = threadIdx.x; i < half_dim; i += BLOCK) {
        float2 f = __half22float2(x[base + i]);
        float a = w[2 * i] * (f.x * sc);
        float b = w[2 * i + 1] * (f.y * sc);
        y[base + i] = __floats2half2_rn(a, b);
    }
}

// odd widths or unexpected dtypes end up here
template <typename T, int BLOCK>
__global__ void rms_generic_kernel(const T* __restrict__ x, const float* __restrict__ w, T* __restrict__ y,
                                   int dim, float eps) {
    __shared__ float partial[BLOCK];
    const size_t base = (size_t)blockIdx.x * dim;
    float ss = 0.f;
    for (int i = threadIdx.x; i < dim; i += BLOCK) {
        float f = static_cast<float>(x[base + i]);
        ss += f * f;
    }
    partial[threadIdx.x] = ss;
    __syncthreads();
    for (int s = BLOCK / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
        __syncthreads();
    }
    const float sc = rsqrtf(partial[0] / dim + eps);
    for (int i = threadIdx.x; i < dim; i += BLOCK)
        y[base + i] = static_cast<T>(w[i] * (static_cast<float>(x[base + i]) * sc));
}

torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double eps) {
    auto xc = x.contiguous();
    auto wc = weight.contiguous();
    auto y = torch::empty_like(xc);
    const int dim = xc.size(-1);
    const int64_t rows = xc.numel() / dim;
    auto stream = at::cuda::getCurrentCUDAStream();
    if (xc.scalar_type() == torch::kHalf && dim % 2 == 0) {
        rms_half2_kernel<256><<<rows, 256, 0, stream>>>(
            reinterpret_cast<const __half2*>(xc.data_ptr<at::Half>()), wc.data_ptr<float>(),
            reinterpret_cast<__half2*>(y.data_ptr<at::Half>()), dim / 2, 1.0f / dim, (float)eps);
    } else {
        AT_DISPATCH_FLOATING_TYPES_AND_HALF(xc.scalar_type(), "rms_norm", [&] {
            rms_generic_kernel<scalar_t, 128><<<rows, 128, 0, stream>>>(
                xc.data_ptr<scalar_t>(), wc.data_ptr<float>(), y.data_ptr<scalar_t>(), dim, (float)eps);
        });
    }
    return y;
}
"""

rms_cpp = "torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double eps);"

rms_ext = load_inline(name="rms_half_ext", cpp_sources=rms_cpp, cuda_sources=rms_cuda,
                      functions=["rms_norm"], extra_cuda_cflags=["-O3"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, hidden_states):
        return rms_ext.rms_norm(hidden_states, self.weight, self.eps)
