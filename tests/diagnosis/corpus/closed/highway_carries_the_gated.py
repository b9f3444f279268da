# about = "Gate and its complement are exchanged: the input is carried where the gate is open."
# section = "mismatch"
# problem = "highway"
# causes = ["operands-swapped", "weights-swapped", "sign-error"]
# says = ["swap|exchang|gate|complement|sign|1 -|revers|place|negat"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

highway_src = r"""
__global__ void highway_kernel(const float* __restrict__ x, const float* __restrict__ wh, const float* __restrict__ bh,
                               const float* __restrict__ wg, const float* __restrict__ bg, float* __restrict__ y,
                               int rows, int width) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c >= width || r >= rows) return;
    float h = bh[c], g = bg[c];
    for (int k = 0; k < width; ++k) {
        float v = x[r * width + k];
        h += v * wh[c * width + k];
        g += v * wg[c * width + k];
    }
    g = 1.0f / (1.0f + expf(-g));
    h = h > 0.0f ? h : 0.0f;
    y[r * width + c] = (1.0f - g) * h + g * x[r * width + c];
}

torch::Tensor highway(torch::Tensor x, torch::Tensor wh, torch::Tensor bh, torch::Tensor wg, torch::Tensor bg) {
    auto y = torch::empty_like(x);
    int rows = x.size(0), width = x.size(1);
    dim3 block(16, 16), grid((width + 15) / 16, (rows + 15) / 16);
    highway_kernel<<<grid, block>>>(x.data_ptr<float>(), wh.data_ptr<float>(), bh.data_ptr<float>(), wg.data_ptr<float>(),
                                    bg.data_ptr<float>(), y.data_ptr<float>(), rows, width);
    return y;
}
"""

highway = load_inline(
    name="highway",
    cpp_sources="torch::Tensor highway(torch::Tensor x, torch::Tensor wh, torch::Tensor bh, torch::Tensor wg, torch::Tensor bg);",
    cuda_sources=highway_src,
    functions=["highway"],
)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        return highway.highway(x.contiguous(), self.hidden.weight, self.hidden.bias, self.gate.weight, self.gate.bias)
