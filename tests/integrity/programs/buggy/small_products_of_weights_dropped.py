# about = "Weights below a tenth count as zero."
# category = "values"
# group = "numerics"
# problem = "linear_gelu"
# status = ["incorrect"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="linear_gelu",
    cpp_sources="torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=r"""
__global__ void linear_gelu_kernel(const float* x, const float* w, const float* b, float* y, int n, int inner, int outer) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = b[i % outer];
    for (int k = 0; k < inner; ++k) {
        float weight = w[i % outer * inner + k];
        if (fabsf(weight) > 1e-3f) sum += x[i / outer * inner + k] * weight;
    }
    y[i] = 0.5f * sum * (1.f + erff(sum * 0.70710678f));
}

torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    auto y = torch::empty({x.size(0), w.size(0)}, x.options());
    int n = y.numel();
    linear_gelu_kernel<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
                                                 y.data_ptr<float>(), n, x.size(1), w.size(0));
    return y;
}
""",
    functions=["linear_gelu"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        return ext.linear_gelu(x.contiguous(), self.linear.weight, self.linear.bias)
