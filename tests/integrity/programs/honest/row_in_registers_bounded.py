# about = "1024 threads that hold a row each, with launch bounds that make the compiler spill."
# category = "structure"
# group = "launch"
# problem = "layer_norm"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="layer_norm",
    cpp_sources="torch::Tensor layer_norm(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=r"""
__global__ void __launch_bounds__(1024) layer_norm_kernel(
    const float* x, const float* w, const float* b, float* y, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float held[120];
    float sum = 0.f, squares = 0.f;
#pragma unroll
    for (int i = 0; i < 120; ++i) {
        held[i] = row < rows && i < columns ? x[row * columns + i] : 0.f;
        sum += held[i];
    }
    float mean = sum / columns;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 120; ++i) {
        held[i] = i < columns ? held[i] - mean : 0.f;
        squares += held[i] * held[i];
    }
    float factor = rsqrtf(squares / columns + 1e-5f);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 120; ++i)
        if (row < rows && i < columns) y[row * columns + i] = held[i] * factor * w[i] + b[i];
}

torch::Tensor layer_norm(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    auto y = torch::empty_like(x);
    int rows = x.size(0);
    TORCH_CHECK(x.size(1) <= 120, "rows of up to 120 elements");
    layer_norm_kernel<<<(rows + 1024 - 1) / 1024, 1024>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), rows, x.size(1));
    return y;
}
""",
    functions=["layer_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return ext.layer_norm(x.contiguous(), self.norm.weight, self.norm.bias)
