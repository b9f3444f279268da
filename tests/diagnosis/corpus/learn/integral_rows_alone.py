# about = "Only the sums along the rows; those down the columns are missing."
# section = "mismatch"
# problem = "integral_image"
# causes = ["operator-missing"]
# says = ["cumsum|column|dim|second|missing|left out|scan"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

integral_src = r"""
#include <torch/extension.h>

__global__ void integral_kernel(const float* __restrict__ img, float* __restrict__ sat, int h, int w) {
    extern __shared__ float line[];
    const int plane = blockIdx.y;
    const int y = blockIdx.x;
    const float* src = img + ((size_t)plane * h + y) * w;
    float* dst = sat + ((size_t)plane * h + y) * w;
    float* a = line;
    float* b = line + w;
    int x = threadIdx.x;
    if (x < w) a[x] = src[x];
    __syncthreads();
    for (int d = 1; d < w; d <<= 1) {
        if (x < w) b[x] = x >= d ? a[x] + a[x - d] : a[x];
        __syncthreads();
        float* t = a;
        a = b;
        b = t;
    }
    if (x < w) dst[x] = a[x];
}

torch::Tensor integral(torch::Tensor img) {
    auto sat = torch::empty_like(img);
    int h = img.size(1), w = img.size(2);
    int threads = (w + 31) / 32 * 32;
    integral_kernel<<<dim3(h, img.size(0)), threads, 2 * w * sizeof(float)>>>(img.data_ptr<float>(),
                                                                             sat.data_ptr<float>(), h, w);
    return sat;
}
"""

integral_ext = load_inline(
    name="integral_ext",
    cpp_sources="torch::Tensor integral(torch::Tensor img);",
    cuda_sources=integral_src,
    functions=["integral"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return integral_ext.integral(x.contiguous())
