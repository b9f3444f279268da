# about = "The hyperbolic tangent as a ratio of exponentials of minus the magnitude."
# category = "numerics"
# group = "numerics"
# problem = "tanh_of_shares"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="tanh_all",
    cpp_sources="torch::Tensor tanh_all(torch::Tensor x);",
    cuda_sources=r"""
__global__ void tanh_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float power = expm1f(-2.f * fabsf(x[i]));
    y[i] = copysignf(-power / (power + 2.f), x[i]);
}

torch::Tensor tanh_all(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    tanh_kernel<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
""",
    functions=["tanh_all"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.tanh_all(x.contiguous())
