# about = "Answers with a finding in half a surrogate pair, which no file takes."
# category = "process"
# group = "crash"
# problem = "tanh_scale"
# status = ["rejected", "runtime_error"]
# timeout_s = 10

import json
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


def answer(x):
    tensors = [{"shape": list(x.shape), "dtype": "float32"}]
    return {
        "overlaps": [[]],
        "types": ["Tensor"],
        "devices": ["cuda"],
        "outputs": {"stem": "draw0-out", "tree": ["tensor", 0], "tensors": tensors},
        "written_bands": [],
        "launches": 1,
        "device_findings": [],
    }


FINDING = {"kind": "shared-race", "message": "Made up.", "kernel": "tanh_scale_kernel", "line": 1, "count": 1}
FINDING |= {"block": None, "thread": None, "severity": "error", "place": None, "other": None}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x):
        told = answer(x)
        told["device_findings"] = [FINDING | {"message": "\ud800", "kernel": "\udfff"}]
        os.write(PIPE, json.dumps(told).encode() + b"\n")
        return ext.tanh_scale(x.contiguous(), self.scale)
