# about = "The weight of each output is read with its two sides exchanged."
# section = "mismatch"
# problem = "bilinear_form"
# causes = ["transposed-operand", "layout-misread", "transposed-filter", "coordinates-swapped"]
# says = ["transpos|layout|stride|weight|exchang|order|swap"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

bilinear_source = r"""
#include <torch/extension.h>

__global__ void bilinear_kernel(const float* __restrict__ x, const float* __restrict__ w,
                                const float* __restrict__ y, const float* __restrict__ bias,
                                float* __restrict__ out, int rows, int I, int J, int O, float slope) {
    __shared__ float sx[32];
    __shared__ float sy[32];
    const int b = blockIdx.x;
    const int o = threadIdx.x;
    if (o < I) sx[o] = x[b * I + o];
    if (o < J) sy[o] = y[b * J + o];
    __syncthreads();
    if (o >= O) return;
    const float* wo = w + (size_t)o * I * J;
    float acc = bias[o];
    for (int i = 0; i < I; ++i) {
        float inner = 0.0f;
        for (int j = 0; j < J; ++j) inner += wo[j * I + i] * sy[j];
        acc += sx[i] * inner;
    }
    out[b * O + o] = acc > 0.0f ? acc : slope * acc;
}

torch::Tensor bilinear_leaky(torch::Tensor x, torch::Tensor y, torch::Tensor w, torch::Tensor bias, double slope) {
    const int rows = x.size(0), I = x.size(1), J = y.size(1), O = w.size(0);
    TORCH_CHECK(I <= 32 && J <= 32 && O <= 32, "sizes up to 32");
    auto out = torch::empty({rows, O}, x.options());
    bilinear_kernel<<<rows, 32>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(),
                                  bias.data_ptr<float>(), out.data_ptr<float>(), rows, I, J, O, (float)slope);
    return out;
}
"""

bilinear_cpp = """
torch::Tensor bilinear_leaky(torch::Tensor x, torch::Tensor y, torch::Tensor w, torch::Tensor bias, double slope);
"""

bilinear = load_inline(
    name="bilinear_leaky_ext", cpp_sources=bilinear_cpp, cuda_sources=bilinear_source, functions=["bilinear_leaky"]
)


class ModelNew(nn.Module):
    def __init__(self, left, right, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, left, right) * 0.2)
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x, y):
        return bilinear.bilinear_leaky(x.contiguous(), y.contiguous(), self.weight, self.bias, 0.1)
