# about = "Right: scaled by the largest magnitude, cube root at the end."
# section = "right"
# problem = "norm_cubic"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void scaled_norm(const float* x, float* y, int items, int columns, int total) {
    int job = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (job >= total) return;
    const float* p = x + (job / columns) * items * columns + job % columns;
    float top = 0.f;
    for (int i = lane; i < items; i += 32) top = fmaxf(top, fabsf(p[i * columns]));
    for (int o = 16; o > 0; o /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o));
    float s = 0.f;
    if (top > 0.f)
        for (int i = lane; i < items; i += 32) {
            float a = fabsf(p[i * columns]) / top;
            s += a * a * a;
        }
    for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(0xffffffffu, s, o);
    if (lane == 0) y[job] = top * cbrtf(s);
}

torch::Tensor scaled(torch::Tensor x) {
    auto y = torch::empty({x.size(0), x.size(2)}, x.options());
    int total = y.numel();
    scaled_norm<<<(total + 1) / 2, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), x.size(2), total);
    return y;
}
"""
ext = load_inline("scaled_norm", cpp_sources="torch::Tensor scaled(torch::Tensor x);", cuda_sources=SRC, functions=["scaled"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.scaled(x.contiguous())
