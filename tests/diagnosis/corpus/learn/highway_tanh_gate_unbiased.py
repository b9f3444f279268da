# about = "The hidden layer goes through tanh, not ReLU, and the gate has no bias."
# section = "mismatch"
# problem = "highway"
# faults = [{causes = ["wrong-activation"], says = ["tanh|relu|activation"]}, {causes = ["bias-missing"], says = ["bias"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void dense(const float* x, const float* w, const float* b, float* y, int rows, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * width) return;
    int r = i / width, c = i % width;
    float sum = b ? b[c] : 0.f;
    for (int k = 0; k < width; ++k) sum += x[r * width + k] * w[c * width + k];
    y[i] = sum;
}

__global__ void mix(const float* x, const float* h, const float* g, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float gate = 1.f / (1.f + expf(-g[i]));
    y[i] = gate * tanhf(h[i]) + (1.f - gate) * x[i];
}

torch::Tensor highway_forward(torch::Tensor x, torch::Tensor wh, torch::Tensor bh, torch::Tensor wg) {
    int rows = x.size(0), width = x.size(1), n = rows * width, blocks = (n + 127) / 128;
    auto h = torch::empty_like(x), g = torch::empty_like(x), y = torch::empty_like(x);
    dense<<<blocks, 128>>>(x.data_ptr<float>(), wh.data_ptr<float>(), bh.data_ptr<float>(), h.data_ptr<float>(), rows, width);
    dense<<<blocks, 128>>>(x.data_ptr<float>(), wg.data_ptr<float>(), nullptr, g.data_ptr<float>(), rows, width);
    mix<<<blocks, 128>>>(x.data_ptr<float>(), h.data_ptr<float>(), g.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""

highway_ops = load_inline(
    name="highway_ops",
    cpp_sources="torch::Tensor highway_forward(torch::Tensor x, torch::Tensor wh, torch::Tensor bh, torch::Tensor wg);",
    cuda_sources=source,
    functions=["highway_forward"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        return highway_ops.highway_forward(x.contiguous(), self.hidden.weight, self.hidden.bias, self.gate.weight)
