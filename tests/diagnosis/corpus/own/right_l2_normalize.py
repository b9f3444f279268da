# about = "A right answer."
# section = "right"
# problem = "l2_normalize"

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="l2_normalize",
    cpp_sources="torch::Tensor normalise(torch::Tensor x);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void normalise_kernel(const float* x, float* y, int rows, int columns) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns) return;
    float sum = 0.f;
    for (int r = 0; r < rows; ++r) sum += x[r * columns + c] * x[r * columns + c];
    float length = fmaxf(sqrtf(sum), 0.5f);
    for (int r = 0; r < rows; ++r) y[r * columns + c] = x[r * columns + c] / length;
}

torch::Tensor normalise(torch::Tensor x) {
    auto y = torch::empty_like(x);
    normalise_kernel<<<(x.size(1) + 31) / 32, 32, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}
""",
    functions=["normalise"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.normalise(x.contiguous())
