# about = "Negative amounts count as zero, so that nothing is cut and the result is too large."
# section = "mismatch"
# problem = "crop_and_pad"
# causes = ["wrong-shape", "output-size", "padding-ignored"]
# says = ["shape|size|pad|crop|cut|negative|rows"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

pad_cuda = r"""
#include <torch/extension.h>
#include <algorithm>

__global__ void constant_pad_kernel(const float* in, float* out, int n, int h, int w, int oh, int ow, int top,
                                    int left, float value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = i % ow - left;
    int y = i / ow % oh - top;
    int plane = i / (ow * oh);
    bool inside = x >= 0 && x < w && y >= 0 && y < h;
    out[i] = inside ? tanhf(in[(plane * h + y) * w + x]) : value;
}

torch::Tensor constant_pad(torch::Tensor in, int64_t left, int64_t right, int64_t top, int64_t bottom, double value) {
    int h = in.size(2), w = in.size(3);
    left = std::max<int64_t>(left, 0);
    right = std::max<int64_t>(right, 0);
    top = std::max<int64_t>(top, 0);
    bottom = std::max<int64_t>(bottom, 0);
    int oh = h + top + bottom, ow = w + left + right;
    auto out = torch::empty({in.size(0), in.size(1), oh, ow}, in.options());
    int n = out.numel();
    constant_pad_kernel<<<(n + 255) / 256, 256>>>(in.data_ptr<float>(), out.data_ptr<float>(), n, h, w, oh, ow, top,
                                                  left, (float)value);
    return out;
}
"""

pad_ext = load_inline(
    name="pad_ext",
    cpp_sources="torch::Tensor constant_pad(torch::Tensor in, int64_t left, int64_t right, int64_t top, int64_t bottom, double value);",
    cuda_sources=pad_cuda,
    functions=["constant_pad"],
)


class ModelNew(nn.Module):
    def __init__(self, amounts, value):
        super().__init__()
        self.amounts = amounts
        self.value = value

    def forward(self, x):
        left, right, top, bottom = self.amounts
        return pad_ext.constant_pad(x.contiguous(), left, right, top, bottom, self.value)
