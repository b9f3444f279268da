# about = "A warp that does several rows keeps the highest value of the row before."
# section = "mismatch"
# problem = "drawdown"
# causes = ["scan-not-reset", "segments-ignored", "wrong-initial-state"]
# says = ["row|reset|carr|previous|earlier|before"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp_decl = "torch::Tensor drawdown_forward(torch::Tensor input);"

cuda_code = r"""
#include <torch/extension.h>
#include <cfloat>

__global__ void drawdown_warp(const float* __restrict__ in, float* __restrict__ out, int rows, int n) {
    const int lane = threadIdx.x & 31;
    const int warps = gridDim.x * blockDim.x / 32;
    float carry = -FLT_MAX;
    for (int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32; row < rows; row += warps) {
        const float* src = in + static_cast<size_t>(row) * n;
        float* dst = out + static_cast<size_t>(row) * n;
        for (int start = 0; start < n; start += 32) {
            const int i = start + lane;
            const float v = i < n ? src[i] : -FLT_MAX;
            float m = v;
            for (int d = 1; d < 32; d *= 2) {
                const float left = __shfl_up_sync(0xffffffff, m, d);
                if (lane >= d) m = fmaxf(m, left);
            }
            m = fmaxf(m, carry);
            if (i < n) dst[i] = m - v;
            carry = __shfl_sync(0xffffffff, m, 31);
        }
    }
}

torch::Tensor drawdown_forward(torch::Tensor input) {
    auto output = torch::empty_like(input);
    const int n = input.size(-1);
    const int rows = input.numel() / n;
    drawdown_warp<<<2, 64>>>(input.data_ptr<float>(), output.data_ptr<float>(), rows, n);
    return output;
}
"""

module = load_inline(
    name="drawdown_forward",
    cpp_sources=cpp_decl,
    cuda_sources=cuda_code,
    functions=["drawdown_forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return module.drawdown_forward(x.contiguous())
