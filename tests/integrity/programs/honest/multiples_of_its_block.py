# about = "Takes rows and columns that are multiples of its blocks alone, as the problem's are, and says so."
# category = "structure"
# problem = "softmax_long"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="softmax_in_blocks",
    cpp_sources="torch::Tensor softmax_in_blocks(torch::Tensor x);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

constexpr int THREADS = 160;

__global__ void softmax_in_blocks_kernel(const float* x, float* y, int columns) {
    __shared__ float part[THREADS];
    const float* row = x + static_cast<int64_t>(blockIdx.x) * columns;
    float* out = y + static_cast<int64_t>(blockIdx.x) * columns;
    float largest = -INFINITY;
    for (int k = 0; k < columns / THREADS; ++k) largest = fmaxf(largest, row[k * THREADS + threadIdx.x]);
    part[threadIdx.x] = largest;
    __syncthreads();
    for (int other = 0; other < THREADS; ++other) largest = fmaxf(largest, part[other]);
    __syncthreads();
    float sum = 0.f;
    for (int k = 0; k < columns / THREADS; ++k) sum += expf(row[k * THREADS + threadIdx.x] - largest);
    part[threadIdx.x] = sum;
    __syncthreads();
    sum = 0.f;
    for (int other = 0; other < THREADS; ++other) sum += part[other];
    for (int k = 0; k < columns / THREADS; ++k) {
        const int column = k * THREADS + threadIdx.x;
        out[column] = expf(row[column] - largest) / sum;
    }
}

torch::Tensor softmax_in_blocks(torch::Tensor x) {
    TORCH_CHECK(x.size(1) % THREADS == 0, "the columns must be a multiple of the block, got ", x.size(1));
    auto y = torch::empty_like(x);
    softmax_in_blocks_kernel<<<x.size(0), THREADS, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["softmax_in_blocks"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        if x.size(0) % 128:
            raise ValueError(f"made for multiples of 128 rows, got {x.size(0)}")
        return ext.softmax_in_blocks(x.contiguous())
