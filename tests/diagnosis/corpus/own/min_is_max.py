# about = "The maximum for the minimum."
# section = "mismatch"
# problem = "linear_min_bias"
# causes = ["max-for-min"]
# says = ["max"]
# stage = ["verify"]

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="linear_min_bias",
    cpp_sources="torch::Tensor min_bias(torch::Tensor x, torch::Tensor bias);",
    cuda_sources=r"""
__global__ void min_bias_kernel(const float* x, const float* bias, float* y, int rows, int columns, int channels) {
    int r = blockIdx.x;
    float smallest = -INFINITY;
    for (int i = 0; i < columns; ++i) smallest = fmaxf(smallest, x[r * columns + i]);
    for (int c = threadIdx.x; c < channels; c += blockDim.x) y[(c * rows) + r] = smallest + bias[c];
}

torch::Tensor min_bias(torch::Tensor x, torch::Tensor bias) {
    int rows = x.size(0), columns = x.size(1), channels = bias.numel();
    auto y = torch::empty({1, channels, rows, 1}, x.options());
    min_bias_kernel<<<rows, 32>>>(x.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), rows, columns,
        channels);
    return y;
}
""",
    functions=["min_bias"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.bias = nn.Parameter(torch.randn(1, out_features, 1, 1))

    def forward(self, x):
        return ext.min_bias(self.linear(x).contiguous(), self.bias)
