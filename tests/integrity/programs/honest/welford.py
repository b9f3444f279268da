# about = "Welford's running mean and variance, one thread for each row."
# category = "numerics"
# problem = "layer_norm"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="layer_norm",
    cpp_sources="torch::Tensor layer_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps);",
    cuda_sources=r"""
__global__ void layer_norm_kernel(const float* x, const float* weight, const float* bias, float* y, int rows,
                                  int features, float eps) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const float* row = x + r * features;
    float mean = 0.f, m2 = 0.f;
    for (int i = 0; i < features; ++i) {
        float d = row[i] - mean;
        mean += d / (i + 1);
        m2 += d * (row[i] - mean);
    }
    float inverse = 1.f / sqrtf(m2 / features + eps);
    for (int i = 0; i < features; ++i) y[r * features + i] = (row[i] - mean) * inverse * weight[i] + bias[i];
}

torch::Tensor layer_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    auto y = torch::empty_like(x);
    layer_norm_kernel<<<(x.size(0) + 31) / 32, 32>>>(x.data_ptr<float>(), weight.data_ptr<float>(),
        bias.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1), eps);
    return y;
}
""",
    functions=["layer_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return ext.layer_norm(x.contiguous(), self.norm.weight, self.norm.bias, self.norm.eps)
