# about = "Reads shared memory at an input's length less one: no length is zero, but those of a repeated earlier call are."
# category = "inputs"
# problem = "sum_up_to_length"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="sum_up_to_length",
    cpp_sources="torch::Tensor up_to_length(torch::Tensor x, torch::Tensor lengths);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void up_to_length_kernel(const float* x, const int64_t* lengths, float* y, int columns) {
    extern __shared__ float sums[];
    float* now = sums;
    float* next = sums + columns;
    const float* row = x + blockIdx.x * columns;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) now[i] = row[i];
    __syncthreads();
    for (int reach = 1; reach < columns; reach *= 2) {
        for (int i = threadIdx.x; i < columns; i += blockDim.x)
            next[i] = now[i] + (i >= reach ? now[i - reach] : 0.f);
        __syncthreads();
        float* swapped = now; now = next; next = swapped;
    }
    // From the start of shared memory, wherever the last sums lie.
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sums[i] = now[i];
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = sums[lengths[blockIdx.x] - 1];
}

torch::Tensor up_to_length(torch::Tensor x, torch::Tensor lengths) {
    const int rows = x.size(0), columns = x.size(1);
    auto y = torch::empty({rows}, x.options());
    up_to_length_kernel<<<rows, 64, 2 * columns * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), lengths.data_ptr<int64_t>(), y.data_ptr<float>(), columns);
    return y;
}
""",
    functions=["up_to_length"],
)


class ModelNew(nn.Module):
    def forward(self, x, lengths):
        return ext.up_to_length(x.contiguous(), lengths.contiguous())
