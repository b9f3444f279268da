# about = "The threshold is one, as by default, not the problem's delta."
# section = "mismatch"
# problem = "huber"
# causes = ["wrong-slope", "hard-coded-size", "clamp-bounds"]
# says = ["delta|threshold|slope|1\\.0|one|0\\.7"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
// a thread per row
__device__ float huber_of(float difference) {
    const float size = fabsf(difference);
    const float inner = fminf(size, 1.f);
    return inner * (size - 0.5f * inner);
}

__global__ void mean_huber(const float* p, const float* t, float* y, int rows, int columns) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float total = 0.f;
    for (int c = 0; c < columns; ++c) total += huber_of(p[r * columns + c] - t[r * columns + c]);
    y[r] = total / columns;
}

torch::Tensor mean_huber_cuda(torch::Tensor p, torch::Tensor t) {
    const int rows = p.size(0);
    auto y = torch::empty({rows}, p.options());
    mean_huber<<<(rows + 31) / 32, 32>>>(p.data_ptr<float>(), t.data_ptr<float>(), y.data_ptr<float>(), rows, p.size(1));
    return y;
}
"""

ext = load_inline(
    name="mean_huber",
    cpp_sources="torch::Tensor mean_huber_cuda(torch::Tensor p, torch::Tensor t);",
    cuda_sources=SRC,
    functions=["mean_huber_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, delta):
        super().__init__()
        self.delta = delta

    def forward(self, prediction, target):
        p = prediction.contiguous()
        t = target.contiguous()
        return ext.mean_huber_cuda(p, t)
