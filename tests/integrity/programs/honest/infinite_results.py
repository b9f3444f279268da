# about = "Minus infinity where the reference has it."
# category = "inputs"
# problem = "log_relu"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="log_relu",
    cpp_sources="torch::Tensor log_relu(torch::Tensor x);",
    cuda_sources=r"""
__global__ void log_relu_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = logf(fmaxf(x[i], 0.f));
}

torch::Tensor log_relu(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    log_relu_kernel<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
""",
    functions=["log_relu"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.log_relu(x.contiguous())
