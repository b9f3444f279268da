# about = "The channels of a block stay a dimension of their own."
# section = "mismatch"
# problem = "pixel_unshuffle"
# causes = ["wrong-shape"]
# says = ["2, 12, 6, 9|dimension|flatten|reshape|merge"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

template <int R>
__global__ void unshuffle_kernel(const float* __restrict__ in, float* __restrict__ out, int planes, int oh, int ow) {
    const int total = planes * R * R * oh * ow;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        int rest = i;
        const int w = rest % ow;
        rest /= ow;
        const int h = rest % oh;
        rest /= oh;
        const int j = rest % R;
        rest /= R;
        const int k = rest % R;
        const int p = rest / R;
        out[i] = in[((size_t)p * oh * R + h * R + k) * ow * R + w * R + j];
    }
}

torch::Tensor pixel_unshuffle(torch::Tensor x) {
    constexpr int R = 2;
    const int n = x.size(0), c = x.size(1), oh = x.size(2) / R, ow = x.size(3) / R;
    auto out = torch::empty({n, c, R * R, oh, ow}, x.options());
    unshuffle_kernel<R><<<4, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n * c, oh, ow);
    return out;
}
"""

unshuffle = load_inline(
    name="unshuffle_t",
    cpp_sources="torch::Tensor pixel_unshuffle(torch::Tensor x);",
    cuda_sources=source,
    functions=["pixel_unshuffle"],
)


class ModelNew(nn.Module):
    def __init__(self, factor):
        super().__init__()
        assert factor == 2

    def forward(self, x):
        return unshuffle.pixel_unshuffle(x.contiguous())
