# about = "Interpolates by a sum of hat functions over all knots, held in shared memory."
# section = "right"
# problem = "tone_curve"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
// The curve as a sum of hat functions: each knot adds its value times how near it is.
__global__ void hats(const float* x, const float* curve, float* y, int plane, int knots, float low, float step) {
    extern __shared__ float mine[];
    int c = blockIdx.x, n = blockIdx.y;
    for (int k = threadIdx.x; k < knots; k += blockDim.x) mine[k] = curve[c * knots + k];
    __syncthreads();
    size_t at = ((size_t)n * gridDim.x + c) * plane;
    for (int i = threadIdx.x; i < plane; i += blockDim.x) {
        float place = (x[at + i] - low) / step;
        place = fminf(fmaxf(place, 0.f), (float)(knots - 1));
        float sum = 0.f;
        for (int k = 0; k < knots; ++k) sum += mine[k] * fmaxf(0.f, 1.f - fabsf(place - (float)k));
        y[at + i] = sum;
    }
}

torch::Tensor curve_by_hats(torch::Tensor x, torch::Tensor curve, double low, double high) {
    auto y = torch::empty_like(x);
    int knots = curve.size(1);
    dim3 grid(x.size(1), x.size(0));
    hats<<<grid, 64, knots * sizeof(float)>>>(x.data_ptr<float>(), curve.data_ptr<float>(), y.data_ptr<float>(),
        x.size(2) * x.size(3), knots, low, (high - low) / (knots - 1));
    return y;
}
"""

cpp_source = "torch::Tensor curve_by_hats(torch::Tensor x, torch::Tensor curve, double low, double high);"

ext = load_inline(
    name="curve_by_hats_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["curve_by_hats"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, low, high):
        super().__init__()
        self.range = (low, high)

    def forward(self, x, curve):
        return ext.curve_by_hats(x.contiguous(), curve.contiguous(), *self.range)
