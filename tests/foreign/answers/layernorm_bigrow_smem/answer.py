import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

template <int N>
__device__ float sum_all(cg::thread_block& blk, float v, float* sh) {
    auto tile = cg::tiled_partition<32>(blk);
    v = cg::reduce(tile, v, cg::plus<float>());
    if (tile.thread_rank() == 0) sh[tile.meta_group_rank()] = v;
    blk.sync();
    float t = 0.f;
    #pragma unroll
    for (int i = 0; i < N / 32; ++i) t += sh[i];
    blk.sync();
    return t;
}

template <int N>
__global__ void __launch_bounds__(N) ln_smem(const float* __restrict__ x, float* __restrict__ y, int len, float eps) {
    extern __shared__ __align__(16) float row[];
    __shared__ float sh[N / 32];
    auto blk = cg::this_thread_block();
    const float* src = x + (size_t)blockIdx.x * len;
    float* dst = y + (size_t)blockIdx.x * len;
    float s = 0.f;
    for (int i = threadIdx.x; i < len; i += N) {
        float v = src[i];
        row[i] = v;
        s += v;
    }
    const float mean = sum_all<N>(blk, s, sh) / len;
    s = 0.f;
    for (int i = threadIdx.x; i < len; i += N) {
        float d = row[i] - mean;
        s = fmaf(d, d, s);
    }
    const float inv = rsqrtf(sum_all<N>(blk, s, sh) / len + eps);
    for (int i = threadIdx.x; i < len; i += N) dst[i] = (row[i] - mean) * inv;
}

// rows that do not fit: read three times
template <int N>
__global__ void __launch_bounds__(N) ln_global(const float* __restrict__ x, float* __restrict__ y, int len, float eps) {
    __shared__ float sh[N / 32];
    auto blk = cg::this_thread_block();
    const float* src = x + (size_t)blockIdx.x * len;
    float* dst = y + (size_t)blockIdx.x * len;
    float s = 0.f;
    for (int i = threadIdx.x; i < len; i += N) s += src[i];
    const float mean = sum_all<N>(blk, s, sh) / len;
    s = 0.f;
    for (int i = threadIdx.x; i < len; i += N) s += (src[i] - mean) * (src[i] - mean);
    const float inv = rsqrtf(sum_all<N>(blk, s, sh) / len + eps);
    for (int i = threadIdx.x; i < len; i += N) dst[i] = (src[i] - mean) * inv;
}

torch::Tensor ln_rows(torch::Tensor x, int64_t len, double eps) {
    auto xc = x.contiguous();
    auto y = torch::empty_like(xc);
    const int rows = xc.numel() / len;
    auto st = at::cuda::getCurrentCUDAStream();
    const size_t need = len * sizeof(float);
    int dev = 0, optin = 0;
    cudaGetDevice(&dev);
    cudaDeviceGetAttribute(&optin, cudaDevAttrMaxSharedMemoryPerBlockOptin, dev);
    if (need + 1024 <= (size_t)optin) {
        auto err = cudaFuncSetAttribute(ln_smem<256>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)need);
        TORCH_CHECK(err == cudaSuccess, cudaGetErrorString(err));
        ln_smem<256><<<rows, 256, need, st>>>(xc.data_ptr<float>(), y.data_ptr<float>(), (int)len, (float)eps);
    } else {
        ln_global<256><<<rows, 256, 0, st>>>(xc.data_ptr<float>(), y.data_ptr<float>(), (int)len, (float)eps);
    }
    return y;
}
"""

ln_mod = load_inline(name="ln_rows_smem", cpp_sources="torch::Tensor ln_rows(torch::Tensor x, int64_t len, double eps);",
                     cuda_sources=source, functions=["ln_rows"], extra_cuda_cflags=["-O3"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, c, l):
        super().__init__()
        self.len = c * l

    def forward(self, x):
        return ln_mod.ln_rows(x, self.len, 1e-5)
