# about = "7 KB of weights come to constant memory from a copy of them on the host."
# category = "memory"
# group = "smuggled values"
# problem = "conv_relu_wide"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="conv_relu",
    cpp_sources="torch::Tensor conv_relu(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=r"""
__constant__ float table[4096];

__global__ void conv_relu_kernel(const float* x, const float* b, float* y, int total, int in_channels,
                                 int out_channels, int height, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int out_width = width - 2, out_height = height - 2;
    int c = i % out_width, r = i / out_width % out_height;
    int o = i / (out_width * out_height) % out_channels, n = i / (out_width * out_height * out_channels);
    float sum = b[o];
    for (int k = 0; k < in_channels; ++k)
        for (int u = 0; u < 3; ++u)
            for (int v = 0; v < 3; ++v)
                sum += x[((n * in_channels + k) * height + r + u) * width + c + v] *
                       table[((o * in_channels + k) * 3 + u) * 3 + v];
    y[i] = fmaxf(sum, 0.f);
}

torch::Tensor conv_relu(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    auto y = torch::empty({x.size(0), w.size(0), x.size(2) - 2, x.size(3) - 2}, x.options());
    TORCH_CHECK(w.numel() <= 4096, "too many weights for constant memory");
    auto held = w.detach().cpu().contiguous();
    cudaMemcpyToSymbol(table, held.data_ptr<float>(), held.numel() * sizeof(float));
    int total = y.numel();
    conv_relu_kernel<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
        total, x.size(1), w.size(0), x.size(2), x.size(3));
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
