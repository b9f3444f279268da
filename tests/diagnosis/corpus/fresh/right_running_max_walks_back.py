# about = "Each element walks back to its run's first one; a grid of two blocks strides over all."
# section = "right"
# problem = "running_max_flags"

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

// No scan: each element walks back until it meets a flag, its own included, or the row's first element.
__global__ void walk_back(const float* x, const int64_t* starts, float* out, int total, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        float best = x[i];
        for (int j = i; j % n != 0 && starts[j] == 0; --j) best = x[j - 1] > best ? x[j - 1] : best;
        out[i] = best;
    }
}

torch::Tensor walk(torch::Tensor x, torch::Tensor starts) {
    auto out = torch::zeros_like(x);
    walk_back<<<2, 96>>>(x.data_ptr<float>(), starts.data_ptr<int64_t>(), out.data_ptr<float>(), x.numel(), x.size(-1));
    return out;
}
"""

DECLARATIONS = """
torch::Tensor walk(torch::Tensor x, torch::Tensor starts);
"""

ext = load_inline(
    name="fused_walk",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["walk"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def forward(self, x, starts):
        return ext.walk(x.contiguous(), starts.contiguous())
