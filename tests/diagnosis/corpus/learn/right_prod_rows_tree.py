# about = "Right: a tree of pairs in shared memory, for a size that is no power of two."
# section = "right"
# problem = "prod_rows"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void pair_tree(const float* x, float* y, int width) {
    extern __shared__ float v[];
    for (int j = threadIdx.x; j < width; j += blockDim.x) v[j] = x[blockIdx.x * width + j];
    __syncthreads();
    for (int n = width; n > 1; n = (n + 1) / 2) {
        int half = (n + 1) / 2;
        for (int j = threadIdx.x; j + half < n; j += blockDim.x) v[j] *= v[j + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = v[0];
}

torch::Tensor tree(torch::Tensor x) {
    auto y = torch::empty({x.size(0), x.size(1)}, x.options());
    int width = x.size(2);
    pair_tree<<<y.numel(), 32, width * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), width);
    return y;
}
"""
ext = load_inline("pair_tree", cpp_sources="torch::Tensor tree(torch::Tensor x);", cuda_sources=SRC, functions=["tree"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.tree(x.contiguous())
