# about = "Counts the element itself, and begins anew with every 32 steps."
# section = "mismatch"
# problem = "sum_after"
# faults = [{causes = ["scan-inclusive", "operator-missing", "scan-off-by-one"], says = ["inclu|itself|own element|not subtracted|missing|left out|shift|off by one"]}, {causes = ["scan-restarts", "partial-sums-not-combined"], says = ["restart|carry|carri|block|tile|earlier|partial|again|forget"]}]
# stage = ["verify"]

"""Fused kernel in place of the PyTorch operators."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

KERNELS = r"""
#include <torch/extension.h>

// One warp walks one (batch, feature) column from its end, 32 steps at a time.
__global__ void sum_after_kernel(const float* __restrict__ x, float* __restrict__ y, int B, int T, int C) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    int lane = threadIdx.x & 31;
    if (warp >= B * C) return;
    int b = warp / C, c = warp % C;
    const float* px = x + (size_t)b * T * C + c;
    float* py = y + (size_t)b * T * C + c;
    float carry = 0.0f;
    for (int start = 0; start < T; start += 32) {
        int t = T - 1 - (start + lane);
        float own = t >= 0 ? px[(size_t)t * C] : 0.0f;
        float sum = own;
        #pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            float other = __shfl_up_sync(0xffffffff, sum, offset);
            if (lane >= offset) sum += other;
        }
        if (t >= 0) py[(size_t)t * C] = carry + sum;
    }
}

torch::Tensor sum_after(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int B = x.size(0), T = x.size(1), C = x.size(2);
    int warps = B * C;
    sum_after_kernel<<<(warps + 3) / 4, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), B, T, C);
    return y;
}
"""

DECLARATIONS = """
torch::Tensor sum_after(torch::Tensor x);
"""

ext = load_inline(
    name="fused_sum_after",
    cpp_sources=[DECLARATIONS],
    cuda_sources=[KERNELS],
    functions=["sum_after"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O2"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.sum_after(x.contiguous())
