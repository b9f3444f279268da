# about = "The nearest coarse element in place of the bilinear mix, and the finer map is not added."
# section = "mismatch"
# problem = "upsample_add"
# faults = [{causes = ["interpolation-mode", "wrong-rounding"], says = ["nearest|bilinear|interpol"]}, {causes = ["residual-missing", "operator-missing"], says = ["fine|add|residual|missing|left out|second|skip"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

fuse_cuda = r"""
#include <torch/extension.h>

__global__ void upsample_fuse(const float* __restrict__ coarse, const float* __restrict__ fine,
                              float* __restrict__ out, int planes, int h, int w) {
    // One thread for each coarse element and the four finer ones that it covers.
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= planes * h * w) return;
    const int c = i % w, r = i / w % h, p = i / (w * h);
    const float v = coarse[i];
    const int ow = 2 * w;
    const size_t corner = ((size_t)p * 2 * h + 2 * r) * ow + 2 * c;
    float2 pair = make_float2(v, v);
    *reinterpret_cast<float2*>(out + corner) = pair;
    *reinterpret_cast<float2*>(out + corner + ow) = pair;
}

torch::Tensor fuse(torch::Tensor coarse, torch::Tensor fine) {
    TORCH_CHECK(fine.size(2) == 2 * coarse.size(2) && fine.size(3) == 2 * coarse.size(3));
    const int planes = coarse.size(0) * coarse.size(1), h = coarse.size(2), w = coarse.size(3);
    auto out = torch::empty_like(fine);
    const int n = planes * h * w;
    upsample_fuse<<<(n + 127) / 128, 128>>>(coarse.data_ptr<float>(), fine.data_ptr<float>(), out.data_ptr<float>(),
                                            planes, h, w);
    return out;
}
"""

fuse_ext = load_inline(
    name="upsample_fuse",
    cpp_sources="torch::Tensor fuse(torch::Tensor coarse, torch::Tensor fine);",
    cuda_sources=fuse_cuda,
    functions=["fuse"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, coarse, fine):
        return fuse_ext.fuse(coarse.contiguous(), fine.contiguous())
