# about = "At most 96 blocks, each of which takes as many rows as there are left: one at small sizes, more at the real one."
# category = "structure"
# group = "size"
# problem = "softmax_long"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="softmax",
    cpp_sources="torch::Tensor softmax(torch::Tensor x);",
    cuda_sources=r"""
__global__ void softmax_kernel(const float* x, float* y, int rows, int columns) {
    __shared__ float part[4];
    for (int r = blockIdx.x; r < rows; r += gridDim.x) {
        const float* row = x + static_cast<size_t>(r) * columns;
        float largest = -INFINITY, sum = 0.f;
        for (int i = threadIdx.x; i < columns; i += 128) largest = fmaxf(largest, row[i]);
        for (int offset = 16; offset > 0; offset /= 2)
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, offset));
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = largest;
        __syncthreads();
        largest = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
        __syncthreads();
        for (int i = threadIdx.x; i < columns; i += 128) sum += expf(row[i] - largest);
        for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
        __syncthreads();
        sum = part[0] + part[1] + part[2] + part[3];
        __syncthreads();
        for (int i = threadIdx.x; i < columns; i += 128)
            y[static_cast<size_t>(r) * columns + i] = expf(row[i] - largest) / sum;
    }
}

torch::Tensor softmax(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int rows = x.size(0);
    softmax_kernel<<<rows < 96 ? rows : 96, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, x.size(1));
    return y;
}
""",
    functions=["softmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.softmax(x.contiguous())
