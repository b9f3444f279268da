# about = "Taps outside the image count as zero, where the border is repeated."
# section = "mismatch"
# problem = "bicubic_resize"
# causes = ["padding-mode", "clamp-missing", "wrong-fill-value"]
# says = ["clamp|border|edge|zero|outside|replicat|repeat"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

bicubic_source = r"""
#include <torch/extension.h>

__device__ void cubic_coefficients(float t, float c[4]) {
    const float A = -0.75f;
    float x1 = t;
    c[0] = ((A * (x1 + 1.0f) - 5.0f * A) * (x1 + 1.0f) + 8.0f * A) * (x1 + 1.0f) - 4.0f * A;
    c[1] = ((A + 2.0f) * x1 - (A + 3.0f)) * x1 * x1 + 1.0f;
    float x2 = 1.0f - t;
    c[2] = ((A + 2.0f) * x2 - (A + 3.0f)) * x2 * x2 + 1.0f;
    c[3] = ((A * (x2 + 1.0f) - 5.0f * A) * (x2 + 1.0f) + 8.0f * A) * (x2 + 1.0f) - 4.0f * A;
}

__device__ float pixel(const float* p, int h, int w, int r, int c) {
    return (r >= 0 && r < h && c >= 0 && c < w) ? p[r * w + c] : 0.0f;
}

__global__ void bicubic_kernel(const float* __restrict__ x, float* __restrict__ y, int h, int w, int oh, int ow) {
    int ox = blockIdx.x * blockDim.x + threadIdx.x;
    int oy = blockIdx.y * blockDim.y + threadIdx.y;
    if (ox >= ow || oy >= oh) return;
    const float* p = x + (size_t)blockIdx.z * h * w;
    float ry = (float)h / oh * (oy + 0.5f) - 0.5f;
    float rx = (float)w / ow * (ox + 0.5f) - 0.5f;
    int iy = floorf(ry), ix = floorf(rx);
    float cy[4], cx[4];
    cubic_coefficients(ry - iy, cy);
    cubic_coefficients(rx - ix, cx);
    float acc = 0.0f;
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j) acc += cy[i] * cx[j] * pixel(p, h, w, iy - 1 + i, ix - 1 + j);
    y[((size_t)blockIdx.z * oh + oy) * ow + ox] = acc;
}

torch::Tensor bicubic(torch::Tensor x, int64_t oh, int64_t ow) {
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    dim3 block(8, 8);
    dim3 grid((ow + 7) / 8, (oh + 7) / 8, x.size(0) * x.size(1));
    bicubic_kernel<<<grid, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(2), x.size(3), oh, ow);
    return y;
}
"""

bicubic = load_inline(
    name="bicubic",
    cpp_sources="torch::Tensor bicubic(torch::Tensor x, int64_t oh, int64_t ow);",
    cuda_sources=bicubic_source,
    functions=["bicubic"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return bicubic.bicubic(x.contiguous(), *self.size)
