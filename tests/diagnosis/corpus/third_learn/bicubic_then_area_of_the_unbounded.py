# about = "The areas are taken from the enlarged image before it is bounded."
# section = "mismatch"
# problem = "bicubic_then_area"
# causes = ["activation-order", "clamp-missing", "operator-missing", "activation-missing"]
# says = ["clamp|order|bound|before|operator|after"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__device__ __forceinline__ float cubic(float d) {
    d = fabsf(d);
    if (d < 1.f) return (1.25f * d - 2.25f) * d * d + 1.f;
    if (d < 2.f) return ((-0.75f * d + 3.75f) * d - 6.f) * d + 3.f;
    return 0.f;
}

__global__ void enlarge(const float* x, float* up, int planes, int H, int W, int LH, int LW) {
    const int total = planes * LH * LW;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        const int c = i % LW, r = i / LW % LH, p = i / (LW * LH);
        const float fy = (float)(r * (H - 1)) / (float)(LH - 1), fx = (float)(c * (W - 1)) / (float)(LW - 1);
        float acc = 0.f;
        for (int y = (int)fy - 1; y <= (int)fy + 2; ++y) {
            const float wy = cubic(fy - y);
            for (int z = (int)fx - 1; z <= (int)fx + 2; ++z)
                acc += wy * cubic(fx - z) * x[(p * H + max(0, min(H - 1, y))) * W + max(0, min(W - 1, z))];
        }
        up[i] = acc;
    }
}

__global__ void areas(const float* up, float* low, int planes, int LH, int LW, int SH, int SW) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= planes * SH * SW) return;
    const int c = i % SW, r = i / SW % SH, p = i / (SW * SH);
    const int y0 = r * LH / SH, y1 = (r * LH + LH + SH - 1) / SH, x0 = c * LW / SW, x1 = (c * LW + LW + SW - 1) / SW;
    float acc = 0.f;
    for (int y = y0; y < y1; ++y)
        for (int z = x0; z < x1; ++z) acc += up[(p * LH + y) * LW + z];
    low[i] = acc / (float)((y1 - y0) * (x1 - x0));
}

__global__ void bound(float* up, float lo, float hi, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) up[i] = fminf(fmaxf(up[i], lo), hi);
}

std::vector<torch::Tensor> enlarge_and_shrink(torch::Tensor x, int64_t LH, int64_t LW, int64_t SH, int64_t SW) {
    const int planes = x.size(0) * x.size(1);
    auto up = torch::empty({x.size(0), x.size(1), LH, LW}, x.options());
    auto low = torch::empty({x.size(0), x.size(1), SH, SW}, x.options());
    const int n = up.numel();
    enlarge<<<6, 256>>>(x.data_ptr<float>(), up.data_ptr<float>(), planes, x.size(2), x.size(3), LH, LW);
    areas<<<(low.numel() + 127) / 128, 128>>>(up.data_ptr<float>(), low.data_ptr<float>(), planes, LH, LW, SH, SW);
    bound<<<(n + 255) / 256, 256>>>(up.data_ptr<float>(), -1.0f, 1.5f, n);
    return {up, low};
}
"""

ops = load_inline(
    name="enlarge_and_shrink",
    cpp_sources="std::vector<torch::Tensor> enlarge_and_shrink(torch::Tensor x, int64_t LH, int64_t LW, int64_t SH, int64_t SW);",
    cuda_sources=source,
    functions=["enlarge_and_shrink"],
)


class ModelNew(nn.Module):
    def __init__(self, large, small):
        super().__init__()
        self.sizes = tuple(large) + tuple(small)

    def forward(self, x):
        return tuple(ops.enlarge_and_shrink(x.contiguous(), *self.sizes))
