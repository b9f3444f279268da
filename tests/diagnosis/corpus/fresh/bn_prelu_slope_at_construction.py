# about = "The slope is a constant 0.25, as the parameter is constructed."
# section = "mismatch"
# problem = "bn_eval_prelu"
# causes = ["stale-default-parameter", "wrong-slope", "weight-ignored"]
# says = ["0?\\.25|slope|construct|default|parameter"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="bn_prelu_cuda",
    cpp_sources="torch::Tensor bn_prelu(torch::Tensor x, torch::Tensor mean, torch::Tensor var, torch::Tensor gamma, torch::Tensor beta, torch::Tensor slope);",
    cuda_sources=r"""
__global__ void bn_prelu_kernel(const float* __restrict__ x, const float* __restrict__ mean, const float* __restrict__ var,
                                const float* __restrict__ gamma, const float* __restrict__ beta, const float* __restrict__ slope,
                                float* __restrict__ y, int total, int C, int L) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < total) {
        int c = (idx / L) % C;
        float inv_std = rsqrtf(var[c] + 1e-3f);
        float scale = gamma[c] * inv_std;
        float shift = beta[c] - mean[c] * scale;
        float v = x[idx] * scale + shift;
        y[idx] = v >= 0.f ? v : 0.25f * v;
    }
}

torch::Tensor bn_prelu(torch::Tensor x, torch::Tensor mean, torch::Tensor var, torch::Tensor gamma, torch::Tensor beta, torch::Tensor slope) {
    auto y = torch::empty_like(x);
    int total = x.numel();
    bn_prelu_kernel<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), mean.data_ptr<float>(), var.data_ptr<float>(),
        gamma.data_ptr<float>(), beta.data_ptr<float>(), slope.data_ptr<float>(), y.data_ptr<float>(), total, x.size(1), x.size(2));
    return y;
}
""",
    functions=["bn_prelu"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels) * 0.3)
        self.slope = nn.Parameter(torch.full((channels,), 0.25))

    def forward(self, x, mean, variance):
        return ext.bn_prelu(x.contiguous(), mean, variance, self.weight, self.bias, self.slope)
