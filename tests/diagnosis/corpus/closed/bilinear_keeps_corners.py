# about = "Places as with align_corners=True."
# section = "mismatch"
# problem = "bilinear_resize"
# causes = ["align-corners", "wrong-coordinate"]
# says = ["align|corner|half|cent|coordinate"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

bilinear_cuda = r"""
#include <torch/extension.h>

__global__ void bilinear_kernel(const float* __restrict__ in, float* __restrict__ out, int planes, int ih, int iw,
                                int oh, int ow) {
    const float ry = oh > 1 ? (float)(ih - 1) / (oh - 1) : 0.f;
    const float rx = ow > 1 ? (float)(iw - 1) / (ow - 1) : 0.f;
    const int n = planes * oh * ow;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        const int ox = i % ow, oy = (i / ow) % oh, p = i / (ow * oh);
        const float fy = oy * ry, fx = ox * rx;
        const int y0 = (int)fy, x0 = (int)fx;
        const int y1 = min(y0 + 1, ih - 1), x1 = min(x0 + 1, iw - 1);
        const float wy = fy - y0, wx = fx - x0;
        const float* src = in + (size_t)p * ih * iw;
        const float top = src[y0 * iw + x0] * (1.f - wx) + src[y0 * iw + x1] * wx;
        const float bottom = src[y1 * iw + x0] * (1.f - wx) + src[y1 * iw + x1] * wx;
        out[i] = top * (1.f - wy) + bottom * wy;
    }
}

torch::Tensor bilinear(torch::Tensor x, int oh, int ow) {
    const int planes = x.size(0) * x.size(1);
    auto out = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    bilinear_kernel<<<16, 128>>>(x.data_ptr<float>(), out.data_ptr<float>(), planes, x.size(2), x.size(3), oh, ow);
    return out;
}
"""

bilinear_ext = load_inline(
    name="bilinear_ext",
    cpp_sources="torch::Tensor bilinear(torch::Tensor x, int oh, int ow);",
    cuda_sources=bilinear_cuda,
    functions=["bilinear"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.oh, self.ow = size

    def forward(self, x):
        return bilinear_ext.bilinear(x.contiguous(), self.oh, self.ow)
