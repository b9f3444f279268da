# about = "A template over type and block size behind AT_DISPATCH."
# category = "structure"
# problem = "rms_norm"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="rms_norm",
    cpp_sources="torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double eps);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

template <typename T, int THREADS>
__global__ void __launch_bounds__(THREADS) rms_norm_kernel(const T* __restrict__ x, const T* __restrict__ weight,
                                                           T* __restrict__ y, int features, float eps) {
    __shared__ float part[THREADS / 32];
    const T* row = x + static_cast<int64_t>(blockIdx.x) * features;
    float square = 0.f;
    for (int i = threadIdx.x; i < features; i += THREADS) square += float(row[i]) * float(row[i]);
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) square += __shfl_down_sync(0xffffffffu, square, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = square;
    __syncthreads();
    float total = 0.f;
    for (int i = 0; i < THREADS / 32; ++i) total += part[i];
    float inverse = rsqrtf(total / features + eps);
    for (int i = threadIdx.x; i < features; i += THREADS)
        y[static_cast<int64_t>(blockIdx.x) * features + i] = T(float(row[i]) * inverse * float(weight[i]));
}

torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double eps) {
    auto y = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "rms_norm", ([&] {
        rms_norm_kernel<scalar_t, 64><<<x.size(0), 64, 0, at::cuda::getCurrentCUDAStream()>>>(
            x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), x.size(1), eps);
    }));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
""",
    functions=["rms_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return ext.rms_norm(x.contiguous(), self.weight, self.eps)
