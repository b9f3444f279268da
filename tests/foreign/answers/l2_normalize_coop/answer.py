import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

code = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__device__ __forceinline__ float reduce_block(float v, float* sh) {
    cg::thread_block tb = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(tb);
    v = cg::reduce(tile, v, cg::plus<float>());
    if (tile.thread_rank() == 0) sh[tile.meta_group_rank()] = v;
    tb.sync();
    float t = tile.thread_rank() < tile.meta_group_size() ? sh[tile.thread_rank()] : 0.f;
    t = cg::reduce(tile, t, cg::plus<float>());
    tb.sync();
    return t;
}

__global__ void frob_kernel(const float* __restrict__ x, float* __restrict__ y, float* partial, size_t n) {
    __shared__ float sh[32];
    auto grid = cg::this_grid();
    size_t i0 = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t step = (size_t)gridDim.x * blockDim.x;
    float acc = 0.f;
    for (size_t i = i0; i < n; i += step) acc += x[i] * x[i];
    acc = reduce_block(acc, sh);
    if (threadIdx.x == 0) partial[blockIdx.x] = acc;
    grid.sync();
    float t = 0.f;
    for (unsigned int b = threadIdx.x; b < gridDim.x; b += blockDim.x) t += partial[b];
    t = reduce_block(t, sh);
    const float norm = sqrtf(t);
    for (size_t i = i0; i < n; i += step) y[i] = x[i] / norm;
}

torch::Tensor frob_normalize(torch::Tensor x) {
    auto in = x.contiguous();
    auto out = torch::empty_like(in);
    size_t n = in.numel();
    const int threads = 512;
    int occ = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&occ, frob_kernel, threads, 0);
    int sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
    int blocks = occ * sms;
    auto partial = torch::empty({blocks}, in.options());
    const float* ip = in.data_ptr<float>();
    float* op = out.data_ptr<float>();
    float* pp = partial.data_ptr<float>();
    void* args[4] = {(void*)&ip, (void*)&op, (void*)&pp, (void*)&n};
    cudaError_t err = cudaLaunchCooperativeKernel((const void*)frob_kernel, dim3(blocks), dim3(threads), args, 0,
                                                  at::cuda::getCurrentCUDAStream());
    TORCH_CHECK(err == cudaSuccess, "cooperative launch failed: ", cudaGetErrorString(err));
    return out;
}
"""

_mod = load_inline(name="frob_coop", cpp_sources="torch::Tensor frob_normalize(torch::Tensor x);",
                   cuda_sources=code, functions=["frob_normalize"], extra_cuda_cflags=["-O3"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _mod.frob_normalize(x)
