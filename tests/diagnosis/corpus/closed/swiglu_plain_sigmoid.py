# about = "The gate is a sigmoid, not SiLU."
# section = "mismatch"
# problem = "swiglu"
# causes = ["wrong-activation", "operator-missing"]
# says = ["sigmoid|silu|swish|activation"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void project(const float* x, const float* w, float* y, int rows, int width, int hidden) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
    if (warp >= rows * hidden) return;
    int r = warp / hidden, h = warp % hidden;
    float s = 0.f;
    for (int k = lane; k < width; k += 32) s += x[r * width + k] * w[h * width + k];
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
    if (lane == 0) y[warp] = s;
}

__global__ void gate_kernel(const float* gate, const float* up, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = up[i] / (1.f + expf(-gate[i]));
}

torch::Tensor gated(torch::Tensor x, torch::Tensor wg, torch::Tensor wu) {
    int rows = x.size(0), width = x.size(1), hidden = wg.size(0), n = rows * hidden, blocks = (n + 3) / 4;
    auto g = torch::empty({rows, hidden}, x.options());
    auto u = torch::empty_like(g);
    auto y = torch::empty_like(g);
    project<<<blocks, 128>>>(x.data_ptr<float>(), wg.data_ptr<float>(), g.data_ptr<float>(), rows, width, hidden);
    project<<<blocks, 128>>>(x.data_ptr<float>(), wu.data_ptr<float>(), u.data_ptr<float>(), rows, width, hidden);
    gate_kernel<<<(n + 127) / 128, 128>>>(g.data_ptr<float>(), u.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""

ext = load_inline("gated_projection", "torch::Tensor gated(torch::Tensor x, torch::Tensor wg, torch::Tensor wu);", SRC, functions=["gated"])


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        return ext.gated(x.contiguous(), self.gate.weight.contiguous(), self.up.weight.contiguous())
