# about = "Every channel is read through the first one's curve."
# section = "mismatch"
# problem = "tone_curve"
# causes = ["wrong-channel", "index-ignored", "keepdim-broadcast", "layout-misread"]
# says = ["channel|first|index|row|broadcast"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tone_curve_cuda",
    cpp_sources="torch::Tensor tone_curve(torch::Tensor x, torch::Tensor curve, double low, double high);",
    cuda_sources=r"""
__global__ void apply_curve(const float* x, const float* curve, float* y, int n, int C, int plane, int knots, float low, float high) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int c = i / plane % C;
        float u = (x[i] - low) / (high - low);
        u = fminf(fmaxf(u, 0.0f), 1.0f);
        float place = u * (knots - 1);
        int k = min((int)place, knots - 2);
        float t = place - k;
        const float* row = curve;
        y[i] = row[k] + t * (row[k + 1] - row[k]);
    }
}

torch::Tensor tone_curve(torch::Tensor x, torch::Tensor curve, double low, double high) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    apply_curve<<<min((n + 255) / 256, 64), 256>>>(x.data_ptr<float>(), curve.data_ptr<float>(), y.data_ptr<float>(), n,
        x.size(1), x.size(2) * x.size(3), curve.size(1), low, high);
    return y;
}
""",
    functions=["tone_curve"],
)


class ModelNew(nn.Module):
    def __init__(self, low, high):
        super().__init__()
        self.low, self.high = low, high

    def forward(self, x, curve):
        return ext.tone_curve(x.contiguous(), curve.contiguous(), self.low, self.high)
