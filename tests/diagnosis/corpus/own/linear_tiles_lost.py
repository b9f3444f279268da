# about = "Only whole tiles of 16 of the inner dimension."
# section = "mismatch"
# problem = "linear_gelu_scale"
# causes = ["lost-last-block"]
# says = ["16|tile|last"]
# stage = ["verify"]

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="linear_gelu",
    cpp_sources="torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor w, torch::Tensor b, double factor);",
    cuda_sources=r"""
__global__ void linear_gelu_kernel(const float* x, const float* w, const float* b, float* y, int rows, int columns,
                                   int inner, float factor) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c >= columns || r >= rows) return;
    float sum = b[c];
    for (int k = 0; k < inner / 16 * 16; ++k) sum += x[r * inner + k] * w[c * inner + k];
    y[r * columns + c] = factor * 0.5f * sum * (1.f + erff(sum * 0.70710678f));
}

torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor w, torch::Tensor b, double factor) {
    int rows = x.size(0), inner = x.size(1), columns = w.size(0);
    auto y = torch::empty({rows, columns}, x.options());
    dim3 block(16, 16), grid((columns + 15) / 16, (rows + 15) / 16);
    linear_gelu_kernel<<<grid, block>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
        y.data_ptr<float>(), rows, columns, inner, (float)factor);
    return y;
}
""",
    functions=["linear_gelu"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, factor):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.factor = factor

    def forward(self, x):
        return ext.linear_gelu(x.contiguous(), self.linear.weight, self.linear.bias, self.factor)
