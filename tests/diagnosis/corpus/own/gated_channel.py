# about = "The scale of the wrong channel."
# section = "mismatch"
# problem = "gated_scale"
# causes = ["keepdim-broadcast", "wrong-channel", "layout-misread", "bias-wrong-index", "affine-per-group"]
# says = ["channel|index|scale|dim"]
# stage = ["verify"]
# line = "int c"
# sample = true

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="gated",
    cpp_sources="torch::Tensor gated(torch::Tensor x, torch::Tensor gate, torch::Tensor scale);",
    cuda_sources=r"""
__global__ void gated_kernel(const float* x, const float* gate, const float* scale, float* y, int n, int channels,
                             int length) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int c = i % channels;
    float v = x[i] * (1.f / (1.f + expf(-gate[i]))) * scale[c];
    y[i] = v * fminf(fmaxf(v + 3.f, 0.f), 6.f) / 6.f;
}

torch::Tensor gated(torch::Tensor x, torch::Tensor gate, torch::Tensor scale) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    gated_kernel<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), gate.data_ptr<float>(), scale.data_ptr<float>(),
        y.data_ptr<float>(), n, x.size(1), x.size(2));
    return y;
}
""",
    functions=["gated"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels, 1))

    def forward(self, x, gate):
        return ext.gated(x.contiguous(), gate.contiguous(), self.scale)
