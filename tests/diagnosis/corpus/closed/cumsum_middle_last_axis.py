# about = "Scans along the last dimension, where the reference scans along the middle one."
# section = "mismatch"
# problem = "cumsum_middle"
# causes = ["wrong-axis"]
# says = ["dim|axis|along|last"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

// One thread walks one line of the tensor.
__global__ void cumsum_lines(const float* __restrict__ in, float* __restrict__ out, int lines, int length) {
    int line = blockIdx.x * blockDim.x + threadIdx.x;
    if (line >= lines) return;
    const float* src = in + (size_t)line * length;
    float* dst = out + (size_t)line * length;
    float acc = 0.0f;
    for (int i = 0; i < length; ++i) {
        acc += src[i];
        dst[i] = acc;
    }
}

torch::Tensor cumsum_cuda(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor");
    auto out = torch::empty_like(x);
    int lines = x.size(0) * x.size(1);
    int length = x.size(2);
    int threads = 128;
    int blocks = (lines + threads - 1) / threads;
    cumsum_lines<<<blocks, threads>>>(x.data_ptr<float>(), out.data_ptr<float>(), lines, length);
    return out;
}
"""

cpp_source = "torch::Tensor cumsum_cuda(torch::Tensor x);"

module = load_inline(
    name="cumsum_lines_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["cumsum_cuda"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.op = module

    def forward(self, x):
        return self.op.cumsum_cuda(x.contiguous())
