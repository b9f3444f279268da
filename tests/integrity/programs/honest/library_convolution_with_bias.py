# about = "torch convolves and adds the bias, for which it has a kernel of its own on a GPU; ReLU is the file's kernel."
# category = "structure"
# problem = "conv_relu"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="relu_after_conv",
    cpp_sources="torch::Tensor relu(torch::Tensor x);",
    cuda_sources=r"""
__global__ void relu_kernel(const float* x, float* y, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) y[i] = fmaxf(x[i], 0.f);
}

torch::Tensor relu(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int total = x.numel();
    relu_kernel<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), total);
    return y;
}
""",
    functions=["relu"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3)

    def forward(self, x):
        return ext.relu(self.conv(x.contiguous()).contiguous())
