# about = "Windows of a fixed size and step, as of a plain pooling, where the bins vary."
# section = "mismatch"
# problem = "adaptive_max1d"
# causes = ["pool-window", "wrong-rounding"]
# says = ["window|bin|start|stride|size|round"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void adaptive_max_kernel(const float* __restrict__ in, float* __restrict__ out, int len, int out_len) {
    const int line = blockIdx.x;
    const int step = len / out_len;
    const int size = len - (out_len - 1) * step;
    for (int o = threadIdx.x; o < out_len; o += blockDim.x) {
        float best = -INFINITY;
        const int first = o * step;
        for (int k = 0; k < size; ++k) {
            const float v = in[line * len + first + k];
            if (v > best || isnan(v)) best = v;
        }
        out[line * out_len + o] = best;
    }
}

torch::Tensor adaptive_max(torch::Tensor in, int64_t out_len) {
    const int lines = in.size(0) * in.size(1);
    const int len = in.size(2);
    auto out = torch::empty({in.size(0), in.size(1), out_len}, in.options());
    adaptive_max_kernel<<<lines, 32>>>(in.data_ptr<float>(), out.data_ptr<float>(), len, (int)out_len);
    return out;
}
"""

adaptive_max = load_inline(
    name="adaptive_max",
    cpp_sources="torch::Tensor adaptive_max(torch::Tensor in, int64_t out_len);",
    cuda_sources=source,
    functions=["adaptive_max"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return adaptive_max.adaptive_max(x.contiguous(), self.size)
