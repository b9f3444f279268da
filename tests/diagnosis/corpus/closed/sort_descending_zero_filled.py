# about = "The bitonic network is filled up with zeros, which stand before the negative values."
# section = "mismatch"
# problem = "sort_descending"
# causes = ["reduction-start-value", "wrong-fill-value"]
# says = ["zero|pad|fill|start|infin"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <vector>
#define N 128

__global__ void bitonic_rows(const float* x, float* values, int64_t* indices, int width) {
    __shared__ float key[N];
    __shared__ int from[N];
    int t = threadIdx.x;
    key[t] = t < width ? x[blockIdx.x * width + t] : 0.f;
    from[t] = t;
    __syncthreads();
    for (int size = 2; size <= N; size <<= 1) {
        for (int step = size >> 1; step > 0; step >>= 1) {
            int other = t ^ step;
            if (other > t) {
                bool down = (t & size) == 0;
                if (down ? key[t] < key[other] : key[t] > key[other]) {
                    float k = key[t]; key[t] = key[other]; key[other] = k;
                    int f = from[t]; from[t] = from[other]; from[other] = f;
                }
            }
            __syncthreads();
        }
    }
    if (t < width) {
        values[blockIdx.x * width + t] = key[t];
        indices[blockIdx.x * width + t] = from[t];
    }
}

std::vector<torch::Tensor> bitonic(torch::Tensor x) {
    TORCH_CHECK(x.size(1) <= N);
    auto values = torch::empty_like(x);
    auto indices = torch::empty(x.sizes(), x.options().dtype(at::kLong));
    bitonic_rows<<<x.size(0), N>>>(x.data_ptr<float>(), values.data_ptr<float>(), indices.data_ptr<int64_t>(), x.size(1));
    return {values, indices};
}
"""
ext = load_inline("bitonic", cpp_sources="std::vector<torch::Tensor> bitonic(torch::Tensor x);", cuda_sources=SRC, functions=["bitonic"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = ext.bitonic(x.contiguous())
        return out[0], out[1]
