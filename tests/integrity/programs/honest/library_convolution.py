# about = "torch convolves in C++, which is allowed; bias and ReLU are the kernel's."
# category = "structure"
# problem = "conv_relu"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="conv_relu",
    cpp_sources="torch::Tensor conv_relu(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=r"""
__global__ void bias_relu_kernel(const float* x, const float* b, float* y, int total, int channels, int spatial) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) y[i] = fmaxf(x[i] + b[i / spatial % channels], 0.f);
}

torch::Tensor conv_relu(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    auto plain = at::conv2d(x, w).contiguous();
    auto y = torch::empty_like(plain);
    int total = plain.numel();
    bias_relu_kernel<<<(total + 127) / 128, 128>>>(plain.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
                                                   total, plain.size(1), plain.size(2) * plain.size(3));
    return y;
}
""",
    functions=["conv_relu"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3)

    def forward(self, x):
        return ext.conv_relu(x.contiguous(), self.conv.weight, self.conv.bias)
