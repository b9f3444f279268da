# about = "Turns the other way: the signs of both sines are changed."
# section = "mismatch"
# problem = "rotary_axial"
# causes = ["sign-error"]
# says = ["sign|negat|minus|other way|direction"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="rotary_axial_cuda",
    cpp_sources="torch::Tensor rotary_axial(torch::Tensor x, int64_t width, double base);",
    cuda_sources=r"""
__global__ void rotate_axial(const float* __restrict__ x, float* __restrict__ y, int pairs_total, int T, int D, int width, float log_base) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs_total) return;
    int half_pairs = D / 4;
    int pair = i % (D / 2);
    int t = i / (D / 2) % T;
    int at = pair < half_pairs ? t / width : t % width;
    int f = pair % half_pairs;
    float angle = at * expf(-log_base * f / half_pairs);
    float s, c;
    sincosf(angle, &s, &c);
    float a = x[2 * i], b = x[2 * i + 1];
    y[2 * i] = a * c + b * s;
    y[2 * i + 1] = b * c - a * s;
}

torch::Tensor rotary_axial(torch::Tensor x, int64_t width, double base) {
    auto y = torch::empty_like(x);
    int n = x.numel() / 2;
    rotate_axial<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, x.size(2), x.size(3), width, logf((float)base));
    return y;
}
""",
    functions=["rotary_axial"],
)


class ModelNew(nn.Module):
    def __init__(self, width, base):
        super().__init__()
        self.width = width
        self.base = base

    def forward(self, x):
        return ext.rotary_axial(x.contiguous(), self.width, self.base)
