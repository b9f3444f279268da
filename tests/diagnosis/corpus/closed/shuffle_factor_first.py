# about = "The channel is taken apart with the factor outermost, where the output's channel is."
# section = "mismatch"
# problem = "pixel_shuffle"
# causes = ["layout-misread", "wrong-channel"]
# says = ["channel|layout|order"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

shuffle_cuda = r"""
#include <torch/extension.h>

__global__ void pixel_shuffle_kernel(const float* __restrict__ x, float* __restrict__ y, int total, int oc, int h,
                                     int w, int r) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= total) return;
    int ow = w * r, oh = h * r;
    int ox = idx % ow;
    int oy = (idx / ow) % oh;
    int c = (idx / (ow * oh)) % oc;
    int n = idx / (ow * oh * oc);
    int sub = (oy % r) * r + ox % r;
    int ic = sub * oc + c;
    y[idx] = x[((n * oc * r * r + ic) * h + oy / r) * w + ox / r];
}

torch::Tensor pixel_shuffle(torch::Tensor x, int64_t r) {
    int n = x.size(0), oc = x.size(1) / (r * r), h = x.size(2), w = x.size(3);
    auto y = torch::empty({n, oc, h * r, w * r}, x.options());
    int total = y.numel();
    pixel_shuffle_kernel<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), total, oc, h, w, r);
    return y;
}
"""

shuffle_ext = load_inline(
    name="shuffle_ext",
    cpp_sources="torch::Tensor pixel_shuffle(torch::Tensor x, int64_t r);",
    cuda_sources=shuffle_cuda,
    functions=["pixel_shuffle"],
)


class ModelNew(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return shuffle_ext.pixel_shuffle(x.contiguous(), self.factor)
