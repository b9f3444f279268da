# about = "Right: the median by counting, one block per row, subtracted in the same kernel."
# section = "right"
# problem = "median_filter"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void centre_rows(const float* x, float* y, int width) {
    extern __shared__ float row[];
    __shared__ float median;
    int base = blockIdx.x * width;
    for (int j = threadIdx.x; j < width; j += blockDim.x) row[j] = x[base + j];
    __syncthreads();
    for (int j = threadIdx.x; j < width; j += blockDim.x) {
        int less = 0, same = 0;
        for (int k = width - 1; k >= 0; --k) {
            less += row[k] < row[j];
            same += row[k] == row[j] && k < j;
        }
        if (less + same == (width - 1) / 2) median = row[j];
    }
    __syncthreads();
    for (int j = threadIdx.x; j < width; j += blockDim.x) y[base + j] = row[j] - median;
}

torch::Tensor centre(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int width = x.size(1);
    centre_rows<<<x.size(0), 32, width * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), width);
    return y;
}
"""
ext = load_inline("centre", cpp_sources="torch::Tensor centre(torch::Tensor x);", cuda_sources=SRC, functions=["centre"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.centre(x.contiguous())
