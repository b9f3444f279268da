# about = "ReLU before the normalisation."
# section = "mismatch"
# problem = "batch_norm_relu"
# causes = ["activation-order"]
# says = ["relu|order|before"]
# stage = ["verify"]

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="batch_norm_relu",
    cpp_sources="torch::Tensor batch_norm_relu(torch::Tensor x, torch::Tensor mean, torch::Tensor var, torch::Tensor weight, torch::Tensor bias);",
    cuda_sources=r"""
__global__ void batch_norm_relu_kernel(const float* x, const float* mean, const float* var, const float* weight,
                                       const float* bias, float* y, int n, int channels, int spatial) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int c = i / spatial % channels;
    float v = (fmaxf(x[i], 0.f) - mean[c]) * rsqrtf(var[c] + 1e-5f) * weight[c] + bias[c];
    y[i] = v;
}

torch::Tensor batch_norm_relu(torch::Tensor x, torch::Tensor mean, torch::Tensor var, torch::Tensor weight,
                              torch::Tensor bias) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    batch_norm_relu_kernel<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), mean.data_ptr<float>(), var.data_ptr<float>(),
        weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), n, x.size(1), x.size(2) * x.size(3));
    return y;
}
""",
    functions=["batch_norm_relu"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        n = self.norm
        return ext.batch_norm_relu(x.contiguous(), n.running_mean, n.running_var, n.weight, n.bias)
