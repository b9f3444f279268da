# about = "The share is that of the bins below, without the bin itself."
# section = "mismatch"
# problem = "equalise_images"
# causes = ["scan-exclusive", "scan-off-by-one", "index-off-by-one"]
# says = ["exclusiv|below|before|previous|itself|off by one|shift|one bin|earlier|one step|inclusive"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__device__ __forceinline__ int bin_of(float v, float low, float span, int bins) {
    return max(0, min(bins - 1, __float2int_rd((v - low) / span * bins)));
}

// one block per image: histogram, scan and look-up in one go; bins <= 32
__global__ void equalise_block(const float* __restrict__ x, float* __restrict__ y, float* __restrict__ counts,
                               const float low, const float high, const int bins, const int pixels) {
    __shared__ int hist[32];
    __shared__ float share[32];
    const float* in = x + (size_t)blockIdx.x * pixels;
    if (threadIdx.x < 32) hist[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < pixels; i += blockDim.x) atomicAdd(hist + bin_of(in[i], low, high - low, bins), 1);
    __syncthreads();
    if (threadIdx.x < 32) {
        const int mine = hist[threadIdx.x];
        int sum = mine;
        for (int o = 1; o < 32; o <<= 1) {
            const int other = __shfl_up_sync(0xffffffffu, sum, o);
            if (threadIdx.x >= o) sum += other;
        }
        share[threadIdx.x] = (float)(sum - mine) / pixels;
        if (threadIdx.x < bins) counts[blockIdx.x * bins + threadIdx.x] = mine;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < pixels; i += blockDim.x)
        y[(size_t)blockIdx.x * pixels + i] = share[bin_of(in[i], low, high - low, bins)];
}

std::vector<torch::Tensor> equalise_images(torch::Tensor x, int64_t bins, double low, double high) {
    TORCH_CHECK(bins <= 32, "at most 32 bins");
    auto y = torch::empty_like(x);
    auto counts = torch::empty({x.size(0), bins}, x.options());
    equalise_block<<<x.size(0), 96, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(),
        counts.data_ptr<float>(), (float)low, (float)high, bins, x.numel() / x.size(0));
    return {y, counts};
}
"""
ext = load_inline("equalise_images", cpp_sources="std::vector<torch::Tensor> equalise_images(torch::Tensor x, int64_t bins, double low, double high);",
                  cuda_sources=SRC, functions=["equalise_images"])


class ModelNew(nn.Module):
    def __init__(self, bins, low, high):
        super().__init__()
        self.args = (bins, low, high)

    def forward(self, x):
        return tuple(ext.equalise_images(x.contiguous(), *self.args))
