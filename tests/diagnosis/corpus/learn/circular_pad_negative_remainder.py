# about = "The remainder of a negative index is negative: the left border reads before the row, and before the tensor."
# section = "run"
# problem = "circular_pad"
# causes = ["global-out-of-bounds-read", "illegal-address"]
# says = ["out of|before|negative|outside|bounds|past"]
# stage = ["run", "verify", "integrity"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ring_src = """
#include <torch/extension.h>

__global__ void ring_pad_kernel(const float* x, float* y, int lines, int n, int left, int out_n) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= lines * out_n) return;
    int line = idx / out_n;
    int pos = idx % out_n;
    int from = (pos - left) % n;
    y[idx] = x[line * n + from];
}

torch::Tensor ring_pad(torch::Tensor x, int64_t left, int64_t right) {
    int lines = x.size(0) * x.size(1);
    int n = x.size(2);
    int out_n = n + left + right;
    auto y = torch::empty({x.size(0), x.size(1), out_n}, x.options());
    const int threads = 128;
    const int blocks = (lines * out_n + threads - 1) / threads;
    ring_pad_kernel<<<blocks, threads>>>(x.data_ptr<float>(), y.data_ptr<float>(), lines, n, left, out_n);
    return y;
}
"""

ring_pad = load_inline(
    name="ring_pad",
    cpp_sources="torch::Tensor ring_pad(torch::Tensor x, int64_t left, int64_t right);",
    cuda_sources=ring_src,
    functions=["ring_pad"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return ring_pad.ring_pad(x.contiguous(), 4, 2)
