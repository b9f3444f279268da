# about = "What stood at a place takes part in the maximum; the reference leaves it out where values arrive."
# section = "mismatch"
# problem = "scatter_amax_fresh"
# causes = ["base-ignored", "reduction-start-value"]
# says = ["base|stood|self|start|initial|before|counted|includ"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__device__ __forceinline__ void atomicMaxFloat(float* addr, float value) {
    unsigned int* ptr = (unsigned int*)addr;
    unsigned int old = *ptr, assumed;
    do {
        assumed = old;
        if (__uint_as_float(assumed) >= value) break;
        old = atomicCAS(ptr, assumed, __float_as_uint(value));
    } while (assumed != old);
}

__global__ void copy_kernel(const float* __restrict__ src, float* __restrict__ dst, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = src[i];
}

__global__ void scatter_amax_kernel(const int64_t* __restrict__ index, const float* __restrict__ source,
                                    float* __restrict__ out, int values, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= values * columns) return;
    int c = i % columns;
    atomicMaxFloat(out + index[i] * columns + c, source[i]);
}

torch::Tensor scatter_amax(torch::Tensor base, torch::Tensor index, torch::Tensor source) {
    auto out = torch::empty_like(base);
    int n = base.numel(), m = source.numel();
    copy_kernel<<<(n + 127) / 128, 128>>>(base.data_ptr<float>(), out.data_ptr<float>(), n);
    scatter_amax_kernel<<<(m + 127) / 128, 128>>>(index.data_ptr<int64_t>(), source.data_ptr<float>(),
                                                  out.data_ptr<float>(), source.size(0), source.size(1));
    return out;
}
"""

amax_ext = load_inline(
    name="scatter_amax_ext",
    cpp_sources="torch::Tensor scatter_amax(torch::Tensor base, torch::Tensor index, torch::Tensor source);",
    cuda_sources=cuda_source,
    functions=["scatter_amax"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, base, index, source):
        return amax_ext.scatter_amax(base.contiguous(), index.contiguous(), source.contiguous())
