# about = "The width of a convolution's kernel is kw, and a function of its own is named kw_check."
# category = "words"
# group = "sanitizer"
# problem = "conv_relu"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="conv_relu",
    cpp_sources="torch::Tensor conv_relu(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=r"""
#define KH 3
#define KW 3

__device__ int kw_check(int column, int width) { return column < width; }

__global__ void conv_relu_kernel(const float* x, const float* w, const float* b, float* y, int total, int in_channels,
                                 int out_channels, int height, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int out_width = width - KW + 1, out_height = height - KH + 1;
    int c = i % out_width, r = i / out_width % out_height;
    int o = i / (out_width * out_height) % out_channels, n = i / (out_width * out_height * out_channels);
    float sum = b[o];
    for (int k = 0; k < in_channels; ++k)
        for (int kh = 0; kh < KH; ++kh)
            for (int kw = 0; kw < KW; ++kw)
                if (kw_check(c + kw, width))
                    sum += x[((n * in_channels + k) * height + r + kh) * width + c + kw] *
                           w[((o * in_channels + k) * KH + kh) * KW + kw];
    y[i] = fmaxf(sum, 0.f);
}

torch::Tensor conv_relu(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    int kw_size = w.size(3), kh_size = w.size(2);
    TORCH_CHECK(kw_size == KW && kh_size == KH, "kernels of 3x3 only");
    auto y = torch::empty({x.size(0), w.size(0), x.size(2) - 2, x.size(3) - 2}, x.options());
    int total = y.numel();
    conv_relu_kernel<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
        y.data_ptr<float>(), total, x.size(1), w.size(0), x.size(2), x.size(3));
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
