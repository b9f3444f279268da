# about = "The output's size is rounded down, where ceil_mode rounds up."
# section = "mismatch"
# problem = "max_pool_ceil"
# causes = ["wrong-shape", "wrong-rounding"]
# says = ["ceil|round|2, 4, 8, 11"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

maxpool_source = r"""
#include <torch/extension.h>
#include <cfloat>

__global__ void maxpool2d_kernel(const float* __restrict__ input, float* __restrict__ output, int planes, int in_h,
                                 int in_w, int out_h, int out_w, int k, int stride, int pad) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total = planes * out_h * out_w;
    if (idx >= total) return;
    int ow = idx % out_w;
    int oh = (idx / out_w) % out_h;
    int p = idx / (out_w * out_h);
    int h0 = max(oh * stride - pad, 0), h1 = min(oh * stride - pad + k, in_h);
    int w0 = max(ow * stride - pad, 0), w1 = min(ow * stride - pad + k, in_w);
    float m = -FLT_MAX;
    for (int h = h0; h < h1; ++h)
        for (int w = w0; w < w1; ++w) m = fmaxf(m, input[(p * in_h + h) * in_w + w]);
    output[idx] = m;
}

torch::Tensor maxpool2d(torch::Tensor input, int64_t k, int64_t stride, int64_t pad) {
    int n = input.size(0), c = input.size(1), h = input.size(2), w = input.size(3);
    int oh = (h + 2 * pad - k) / stride + 1;
    int ow = (w + 2 * pad - k) / stride + 1;
    auto output = torch::empty({n, c, oh, ow}, input.options());
    int total = n * c * oh * ow;
    maxpool2d_kernel<<<(total + 255) / 256, 256>>>(input.data_ptr<float>(), output.data_ptr<float>(), n * c, h, w, oh,
                                                   ow, k, stride, pad);
    return output;
}
"""

maxpool = load_inline(
    name="maxpool2d",
    cpp_sources="torch::Tensor maxpool2d(torch::Tensor input, int64_t k, int64_t stride, int64_t pad);",
    cuda_sources=maxpool_source,
    functions=["maxpool2d"],
)


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def forward(self, x):
        return maxpool.maxpool2d(x.contiguous(), self.kernel_size, self.stride, self.padding)
