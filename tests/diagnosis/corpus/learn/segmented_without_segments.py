# about = "Sums through the borders of the segments."
# section = "mismatch"
# problem = "segmented_cumsum"
# causes = ["segments-ignored"]
# says = ["segment|start|flag|reset"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

#define WARP 32
#define FULL 0xffffffffu

// One warp per row; value and flag travel together.
__global__ void segmented_scan_kernel(const float* __restrict__ x, const int* __restrict__ starts,
                                      float* __restrict__ y, int rows, int n) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    int lane = threadIdx.x;
    float carry = 0.f;
    for (int base = 0; base < n; base += WARP) {
        int i = base + lane;
        float v = i < n ? x[(long)row * n + i] : 0.f;
        int f = i < n ? (starts[(long)row * n + i] != 0) : 0;
        for (int d = 1; d < WARP; d <<= 1) {
            float pv = __shfl_up_sync(FULL, v, d);
            int pf = __shfl_up_sync(FULL, f, d);
            if (lane >= d) {
                v = v + pv;
                f |= pf;
            }
        }
        v += carry;
        if (i < n) y[(long)row * n + i] = v;
        carry = __shfl_sync(FULL, v, WARP - 1);
    }
}

torch::Tensor segmented_scan(torch::Tensor x, torch::Tensor starts) {
    auto y = torch::empty_like(x);
    int rows = x.size(0);
    dim3 block(WARP, 4);
    segmented_scan_kernel<<<(rows + 3) / 4, block>>>(x.data_ptr<float>(), starts.data_ptr<int>(), y.data_ptr<float>(),
                                                     rows, x.size(1));
    return y;
}
"""

seg = load_inline(
    name="segmented_scan_ext",
    cpp_sources="torch::Tensor segmented_scan(torch::Tensor x, torch::Tensor starts);",
    cuda_sources=source,
    functions=["segmented_scan"],
)


class ModelNew(nn.Module):
    def forward(self, x, starts):
        return seg.segmented_scan(x.contiguous(), starts.contiguous())
