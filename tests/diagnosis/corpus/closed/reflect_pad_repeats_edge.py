# about = "The reflection includes the outermost element, so that it is there twice."
# section = "mismatch"
# problem = "reflect_pad"
# causes = ["padding-mode", "index-off-by-one", "padding-off-by-one"]
# says = ["edge|off by one|symmetric|border|twice|reflect|padding"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

reflect_source = r"""
#include <torch/extension.h>

__device__ int mirrored(int i, int n) {
    if (i < 0) return -i - 1;
    if (i >= n) return 2 * n - i - 1;
    return i;
}

__global__ void reflect_pad_kernel(const float* __restrict__ x, float* __restrict__ y, int total, int h, int w, int oh,
                                   int ow, int left, int top) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= total) return;
    int c = idx % ow;
    int r = (idx / ow) % oh;
    int p = idx / (ow * oh);
    int sr = mirrored(r - top, h);
    int sc = mirrored(c - left, w);
    y[idx] = x[(p * h + sr) * w + sc];
}

torch::Tensor reflect_pad(torch::Tensor x, int64_t left, int64_t right, int64_t top, int64_t bottom) {
    int h = x.size(2), w = x.size(3);
    int oh = h + top + bottom, ow = w + left + right;
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    int total = y.numel();
    reflect_pad_kernel<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), total, h, w, oh, ow,
                                                     left, top);
    return y;
}
"""

reflect_ext = load_inline(
    name="reflect_ext",
    cpp_sources="torch::Tensor reflect_pad(torch::Tensor x, int64_t left, int64_t right, int64_t top, int64_t bottom);",
    cuda_sources=reflect_source,
    functions=["reflect_pad"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return reflect_ext.reflect_pad(x.contiguous(), 3, 1, 2, 4)
