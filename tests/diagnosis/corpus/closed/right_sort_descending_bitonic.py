# about = "Right: a bitonic network of packed keys."
# section = "right"
# problem = "sort_descending"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <vector>

__device__ unsigned long long packed(float v, int i) {
    unsigned b = __float_as_uint(v);
    b = (b & 0x80000000u) ? ~b : (b | 0x80000000u);
    return ((unsigned long long)(~b) << 32) | (unsigned)i;
}

__global__ void sort_packed(const float* x, float* values, int64_t* indices, int width, int n) {
    extern __shared__ unsigned long long keys[];
    for (int t = threadIdx.x; t < n; t += blockDim.x)
        keys[t] = t < width ? packed(x[blockIdx.x * width + t] + 0.f, t) : ~0ull;
    __syncthreads();
    for (int size = 2; size <= n; size <<= 1)
        for (int step = size >> 1; step > 0; step >>= 1) {
            for (int t = threadIdx.x; t < n; t += blockDim.x) {
                int o = t ^ step;
                if (o > t) {
                    unsigned long long a = keys[t], b = keys[o];
                    if (((t & size) == 0) == (a > b)) { keys[t] = b; keys[o] = a; }
                }
            }
            __syncthreads();
        }
    for (int t = threadIdx.x; t < width; t += blockDim.x) {
        int from = (int)(keys[t] & 0xffffffffu);
        values[blockIdx.x * width + t] = x[blockIdx.x * width + from];
        indices[blockIdx.x * width + t] = from;
    }
}

std::vector<torch::Tensor> sort_packed_rows(torch::Tensor x) {
    int width = x.size(1), n = 1;
    while (n < width) n *= 2;
    auto values = torch::empty_like(x);
    auto indices = torch::empty(x.sizes(), x.options().dtype(torch::kInt64));
    sort_packed<<<x.size(0), 64, n * sizeof(unsigned long long)>>>(x.data_ptr<float>(), values.data_ptr<float>(), indices.data_ptr<int64_t>(), width, n);
    return {values, indices};
}
"""
ext = load_inline("sort_packed_rows", cpp_sources="std::vector<torch::Tensor> sort_packed_rows(torch::Tensor x);", cuda_sources=SRC, functions=["sort_packed_rows"])


class ModelNew(nn.Module):
    def forward(self, x):
        values, indices = ext.sort_packed_rows(x.contiguous())
        return values, indices
