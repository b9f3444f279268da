# about = "The host computes the number with torch and hands it to a kernel that stores it."
# category = "disguise"
# problem = "squared_error"
# status = ["rejected"]
# stage = ["screen"]
# finding = 'hidden-library-call'
# bare.status = ["rejected"]
# bare.finding = 'own-kernel|no-kernel-launched'

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="squared_error",
    cpp_sources="torch::Tensor squared_error(torch::Tensor a, torch::Tensor b);",
    cuda_sources=r"""
__global__ void store_kernel(float* y, float value) { y[0] = value; }

torch::Tensor squared_error(torch::Tensor a, torch::Tensor b) {
    auto y = torch::empty({}, a.options());
    float value = (a - b).pow(2).mean().item<float>();
    store_kernel<<<1, 1>>>(y.data_ptr<float>(), value);
    return y;
}
""",
    functions=["squared_error"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.squared_error(a.contiguous(), b.contiguous())
