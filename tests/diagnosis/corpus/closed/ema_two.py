# about = "alpha and 1 - alpha exchanged, and each row from its end."
# section = "mismatch"
# problem = "exponential_average"
# faults = [{causes = ["weights-swapped", "operands-swapped"], says = ["alpha|weight|exchang|swap|1 - "]}, {causes = ["scan-reversed"], says = ["revers|end|backward|direction"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CPP = "torch::Tensor smooth(torch::Tensor x, double alpha);"
CUDA = r"""
__global__ void smooth_rows(const float* x, float* y, float keep, float take, int rows, int steps) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* src = x + (long)row * steps;
    float* dst = y + (long)row * steps;
    int t = steps - 1;
    float h = src[t];
    dst[t] = h;
    for (--t; t >= 0; --t) {
        h = take * src[t] + keep * h;
        dst[t] = h;
    }
}

torch::Tensor smooth(torch::Tensor x, double alpha) {
    auto y = torch::empty_like(x);
    const int rows = x.size(0), steps = x.size(1);
    smooth_rows<<<(rows + 3) / 4, 4>>>(x.data_ptr<float>(), y.data_ptr<float>(), (float)alpha, (float)(1.0 - alpha),
                                      rows, steps);
    return y;
}
"""

smoothing = load_inline(name="smoothing", cpp_sources=CPP, cuda_sources=CUDA, functions=["smooth"])


class ModelNew(nn.Module):
    def __init__(self, alpha: float):
        super().__init__()
        self.alpha = alpha

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return smoothing.smooth(x.contiguous(), self.alpha)
