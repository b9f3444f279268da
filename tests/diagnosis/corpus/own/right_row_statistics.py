# about = "A right answer."
# section = "right"
# problem = "row_statistics"

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_statistics",
    cpp_sources="std::vector<torch::Tensor> statistics(torch::Tensor x);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

__device__ float block_sum(float v, float* shared) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffff, v, o);
    if (lane == 0) shared[warp] = v;
    __syncthreads();
    float total = 0.f;
    for (int w = 0; w < blockDim.x / 32; ++w) total += shared[w];
    __syncthreads();
    return total;
}

__global__ void statistics_kernel(const float* x, float* means, float* deviations, float* largest, int n) {
    __shared__ float shared[32], best[64];
    const float* row = x + (long)blockIdx.x * n;
    float sum = 0.f, square = 0.f, top = -INFINITY;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += row[i], top = fmaxf(top, row[i]);
    float mean = block_sum(sum, shared) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) square += (row[i] - mean) * (row[i] - mean);
    float var = block_sum(square, shared) / (n - 1);
    best[threadIdx.x] = top;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int t = 1; t < 64; ++t) top = fmaxf(top, best[t]);
    means[blockIdx.x] = mean;
    deviations[blockIdx.x] = sqrtf(var);
    largest[blockIdx.x] = top;
}

std::vector<torch::Tensor> statistics(torch::Tensor x) {
    auto a = torch::empty({x.size(0)}, x.options()), b = torch::empty_like(a), c = torch::empty_like(a);
    statistics_kernel<<<x.size(0), 64, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), a.data_ptr<float>(), b.data_ptr<float>(),
        c.data_ptr<float>(), x.size(1));
    return {a, b, c};
}
""",
    functions=["statistics"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return tuple(ext.statistics(x.contiguous()))
