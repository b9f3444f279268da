# about = "The hinge is not bounded below by zero before it is squared."
# section = "mismatch"
# problem = "hinge_squared"
# causes = ["clamp-missing", "activation-missing"]
# says = ["clamp|bound|relu|max|zero"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <cuda_runtime.h>

__global__ void squared_margin(const float* pred, const float* label, float* out, int n, float margin) {
    __shared__ float warp_sums[32];
    float acc = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float slack = margin - pred[i] * label[i];
        acc = fmaf(slack, slack, acc);
    }
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int offset = 16; offset > 0; offset >>= 1) acc += __shfl_down_sync(0xffffffff, acc, offset);
    if (lane == 0) warp_sums[warp] = acc;
    __syncthreads();
    if (warp == 0) {
        acc = lane < (blockDim.x >> 5) ? warp_sums[lane] : 0.0f;
        for (int offset = 16; offset > 0; offset >>= 1) acc += __shfl_down_sync(0xffffffff, acc, offset);
        if (lane == 0) *out = acc / (float)n;
    }
}

torch::Tensor squared_margin_loss(torch::Tensor pred, torch::Tensor label, double margin) {
    auto out = torch::empty({}, pred.options());
    squared_margin<<<1, 512>>>(pred.data_ptr<float>(), label.data_ptr<float>(), out.data_ptr<float>(), pred.numel(), (float)margin);
    return out;
}
"""

squared_margin = load_inline(
    name="squared_margin",
    cpp_sources="torch::Tensor squared_margin_loss(torch::Tensor pred, torch::Tensor label, double margin);",
    cuda_sources=source,
    functions=["squared_margin_loss"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, prediction, label):
        return squared_margin.squared_margin_loss(prediction.contiguous(), label.contiguous(), self.margin)
