# about = "The input is truncated to an integer."
# section = "mismatch"
# problem = "softplus_tanh"
# causes = ["truncated-to-integer"]
# says = ["integer|trunc"]
# stage = ["verify"]
# line = "int v"
# sample = true

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="softplus_tanh",
    cpp_sources="torch::Tensor mish_elu(torch::Tensor x, double alpha);",
    cuda_sources=r"""
__global__ void mish_elu_kernel(const float* x, float* y, int n, float alpha) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = x[i];
    float soft = v > 20.f ? v : log1pf(expf(v));
    float elu = v > 0.f ? v : alpha * expm1f(v);
    y[i] = v * tanhf(soft) + elu;
}

torch::Tensor mish_elu(torch::Tensor x, double alpha) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    mish_elu_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, (float)alpha);
    return y;
}
""",
    functions=["mish_elu"],
)


class ModelNew(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        return ext.mish_elu(x.contiguous(), self.alpha)
