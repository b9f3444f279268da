# about = "The running sum includes the element itself."
# section = "mismatch"
# problem = "exclusive_cumsum"
# causes = ["scan-inclusive", "scan-off-by-one"]
# says = ["inclusive|itself|off by one"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void prefix_rows(const float* __restrict__ x, float* __restrict__ out, int n) {
    __shared__ float sums[128];
    const float* row = x + (size_t)blockIdx.x * n;
    float* dst = out + (size_t)blockIdx.x * n;
    const int per = (n + blockDim.x - 1) / blockDim.x;
    const int begin = threadIdx.x * per;
    const int end = min(begin + per, n);

    float local = 0.f;
    for (int i = begin; i < end; ++i) local += row[i];
    sums[threadIdx.x] = local;
    __syncthreads();
    if (threadIdx.x == 0) {
        float acc = 0.f;
        for (int t = 0; t < blockDim.x; ++t) {
            float s = sums[t];
            sums[t] = acc;
            acc += s;
        }
    }
    __syncthreads();
    float acc = sums[threadIdx.x];
    for (int i = begin; i < end; ++i) {
        acc += row[i];
        dst[i] = acc;
    }
}

torch::Tensor prefix(torch::Tensor x) {
    auto out = torch::empty_like(x);
    prefix_rows<<<x.size(0), 128>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
    return out;
}
"""

mod = load_inline(
    name="prefix_rows_mod",
    cpp_sources="torch::Tensor prefix(torch::Tensor x);",
    cuda_sources=source,
    functions=["prefix"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return mod.prefix(x.contiguous())
