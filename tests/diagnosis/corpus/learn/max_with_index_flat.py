# about = "The index is that of the element in its sample, not that along the dimension."
# section = "mismatch"
# problem = "max_with_index"
# causes = ["wrong-index-base", "layout-misread"]
# says = ["ind"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <vector>

struct Best { float v; int i; };

__device__ Best better(Best a, Best b) { return (b.v > a.v || (b.v == a.v && b.i < a.i)) ? b : a; }

__global__ void argmax_block(const float* __restrict__ x, float* __restrict__ val, int64_t* __restrict__ idx, int items, int columns) {
    __shared__ Best s[64];
    int b = blockIdx.y, c = blockIdx.x, t = threadIdx.x;
    const float* sample = x + b * items * columns;
    Best m{-INFINITY, 0x7fffffff};
    for (int i = t; i < items; i += 64) {
        int flat = i * columns + c;
        m = better(m, Best{sample[flat], flat});
    }
    s[t] = m;
    __syncthreads();
    for (int k = 32; k > 0; k >>= 1) {
        if (t < k) s[t] = better(s[t], s[t + k]);
        __syncthreads();
    }
    if (t == 0) {
        val[b * columns + c] = s[0].v;
        idx[b * columns + c] = s[0].i;
    }
}

std::vector<torch::Tensor> amax(torch::Tensor x) {
    int batch = x.size(0), columns = x.size(2);
    auto val = torch::empty({batch, columns}, x.options());
    auto idx = torch::empty({batch, columns}, x.options().dtype(torch::kInt64));
    argmax_block<<<dim3(columns, batch), 64>>>(x.data_ptr<float>(), val.data_ptr<float>(), idx.data_ptr<int64_t>(), x.size(1), columns);
    return {val, idx};
}
"""
amax_ext = load_inline(name="amax_ext", cpp_sources="#include <vector>\nstd::vector<torch::Tensor> amax(torch::Tensor x);", cuda_sources=source, functions=["amax"])


class ModelNew(nn.Module):
    def forward(self, x):
        v, i = amax_ext.amax(x.contiguous())
        return v, i
