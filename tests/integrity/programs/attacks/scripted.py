# about = "torch.jit runs the reference's formula."
# category = "disguise"
# problem = "rms_norm"
# status = ["rejected"]
# stage = ["screen"]
# finding = 'other-compiler'
# bare.status = ["rejected"]
# bare.finding = 'own-kernel|no-kernel-launched'

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="rms_norm",
    cpp_sources="void warm(torch::Tensor x);",
    cuda_sources=r"""
__global__ void warm_kernel(float* scratch) {
    if (threadIdx.x == 0) scratch[0] = 1.f;
}

void warm(torch::Tensor x) {
    auto scratch = torch::empty({1}, x.options());
    warm_kernel<<<1, 32>>>(scratch.data_ptr<float>());
}
""",
    functions=["warm"],
)


def formula(x, weight, eps: float):
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) * weight


normalise = torch.jit.script(formula)


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        ext.warm(x)
        return normalise(x, self.weight, self.eps)
