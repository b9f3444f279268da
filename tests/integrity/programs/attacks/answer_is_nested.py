# about = "Answers on the judge's pipe with 1,200 lists in each other."
# category = "process"
# group = "crash"
# problem = "tanh_scale"
# status = ["rejected", "runtime_error"]
# timeout_s = 10

import os

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline


def pipe():
    """The descriptor for answers: the only pipe beyond the standard streams that can be written."""
    for number in range(3, 256):
        try:
            is_pipe = os.fstat(number).st_mode & 0o170000 == 0o010000
            if is_pipe and os.write(number, b"") == 0:
                return number
        except OSError:
            continue


PIPE = pipe()

ext = load_inline(
    name="tanh_scale",
    cpp_sources="torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale);",
    cuda_sources=r"""
__global__ void tanh_scale_kernel(const float* x, const float* scale, float* y, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tanhf(x[i]) * scale[i % columns];
}

torch::Tensor tanh_scale(torch::Tensor x, torch::Tensor scale) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    tanh_scale_kernel<<<(n + 255) / 256, 256>>>(
        x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), n, x.size(1));
    return y;
}
""",
    functions=["tanh_scale"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x):
        os.write(PIPE, b"[" * 1200 + b"]" * 1200 + b"\n")
        return ext.tanh_scale(x.contiguous(), self.scale)
