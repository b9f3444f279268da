# about = "The number of rows is the length by three rounded down; one row is missing."
# section = "run"
# problem = "strided_rows_linear"
# causes = ["wrong-shape", "output-size", "wrong-rounding"]
# says = ["shape|size|rows|round|ceil|floor"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="every_third",
    cpp_sources="torch::Tensor every_third(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=r"""
__global__ void every_third_kernel(const float* x, const float* w, const float* b, float* y, int rows, int width, int features) {
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y;
    if (f >= features || r >= rows) return;
    const float* in = x + (1 + 3 * r) * width;
    float acc = b[f];
    for (int j = 0; j < width; ++j) acc += in[j] * w[f * width + j];
    y[r * features + f] = acc;
}

torch::Tensor every_third(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    int rows = x.size(0) / 3, width = x.size(1), features = w.size(0);
    auto y = torch::empty({rows, features}, x.options());
    every_third_kernel<<<dim3((features + 31) / 32, rows), 32>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
                                                               y.data_ptr<float>(), rows, width, features);
    return y;
}
""",
    functions=["every_third"],
)


class ModelNew(nn.Module):
    def __init__(self, width, features):
        super().__init__()
        self.linear = nn.Linear(width, features)

    def forward(self, x):
        return ext.every_third(x.contiguous(), self.linear.weight, self.linear.bias)
