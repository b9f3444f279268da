import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r'''
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float warp_sum(float v) {
    #pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

// every thread gets the sum; buf holds 32 floats
__device__ __forceinline__ float block_sum(float v, float* buf) {
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int warps = blockDim.x >> 5;
    v = warp_sum(v);
    __syncthreads();
    if (lane == 0) buf[warp] = v;
    __syncthreads();
    v = lane < warps ? buf[lane] : 0.0f;
    return warp_sum(v);
}

__global__ void layernorm_kernel(const float* __restrict__ x, const float* __restrict__ gamma,
                                 const float* __restrict__ beta, float* __restrict__ y,
                                 int dim, float eps) {
    __shared__ float buf[32];
    const float* row = x + (size_t)blockIdx.x * dim;
    float* dst = y + (size_t)blockIdx.x * dim;

    float s = 0.0f;
    for (int i = threadIdx.x; i < dim; i += blockDim.x) s += row[i];
    const float mean = block_sum(s, buf) / dim;

    float q = 0.0f;
    for (int i = threadIdx.x; i < dim; i += blockDim.x) {
        float d = row[i] - mean;
        q += d * d;
    }
    const float inv = rsqrtf(block_sum(q, buf) / dim + eps);

    for (int i = threadIdx.x; i < dim; i += blockDim.x)
        dst[i] = (row[i] - mean) * inv * gamma[i] + beta[i];
}

torch::Tensor layernorm_cuda(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, double eps) {
    TORCH_CHECK(x.is_cuda(), "expected a CUDA tensor");
    TORCH_CHECK(x.dim() >= 1 && x.size(-1) == gamma.numel(), "last dimension mismatch");
    auto xc = x.contiguous();
    auto y = torch::empty_like(xc);
    const int dim = (int)xc.size(-1);
    const int rows = (int)(xc.numel() / dim);
    if (rows == 0) return y;
    int threads = 256;
    layernorm_kernel<<<rows, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
        xc.data_ptr<float>(), gamma.contiguous().data_ptr<float>(), beta.contiguous().data_ptr<float>(),
        y.data_ptr<float>(), dim, (float)eps);
    return y;
}
'''

cpp_source = 'torch::Tensor layernorm_cuda(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, double eps);'

layernorm = load_inline(
    name='layernorm_rows',
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=['layernorm_cuda'],
    verbose=True,
    extra_cflags=['-O2'],
    extra_cuda_cflags=['-O3'],
)


class ModelNew(nn.Module):
    """LayerNorm with one block per row."""

    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(dim))
        self.beta = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return layernorm.layernorm_cuda(x, self.gamma, self.beta, self.eps)
