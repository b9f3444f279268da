# about = "The new value gets the share of the old one."
# section = "mismatch"
# problem = "ema_update"
# causes = ["wrong-decay"]
# says = ["decay|complement|0\\.1|0\\.9|share|weight"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <torch/extension.h>

__global__ void dist_kernel(const float* a, const float* x, float* d, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0.0f;
    for (int c = 0; c < cols; c++) s += fabsf(x[r * cols + c] - a[r * cols + c]);
    d[r] = s;
}

__global__ void lerp_kernel(float* a, const float* x, float t, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = a[i] + t * (x[i] - a[i]);
}

torch::Tensor update(torch::Tensor a, torch::Tensor x, float t) {
    int rows = a.size(0), cols = a.size(1), n = a.numel();
    auto d = torch::zeros({rows}, a.options());
    dist_kernel<<<1, 32>>>(a.data_ptr<float>(), x.data_ptr<float>(), d.data_ptr<float>(), rows, cols);
    lerp_kernel<<<(n + 255) / 256, 256>>>(a.data_ptr<float>(), x.data_ptr<float>(), t, n);
    return d;
}
"""

ema = load_inline(
    name="ema_lerp",
    cpp_sources="torch::Tensor update(torch::Tensor a, torch::Tensor x, float t);",
    cuda_sources=cuda,
    functions=["update"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, decay):
        super().__init__()
        self.decay = decay

    def forward(self, average, x):
        d = ema.update(average, x.contiguous(), self.decay)
        return average, d
