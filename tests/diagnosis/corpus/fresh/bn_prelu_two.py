# about = "Weight and bias are exchanged, and the slope is the first channel's everywhere."
# section = "mismatch"
# problem = "bn_eval_prelu"
# faults = [{causes = ["gamma-beta-swapped", "operands-swapped"], says = ["swap|exchang|weight and bias|gamma"]}, {causes = ["wrong-channel", "index-ignored", "keepdim-broadcast", "wrong-slope"], says = ["slope|channel|first|index"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
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
        y[idx] = v >= 0.f ? v : slope[0] * v;
    }
}

torch::Tensor bn_prelu(torch::Tensor x, torch::Tensor mean, torch::Tensor var, torch::Tensor gamma, torch::Tensor beta, torch::Tensor slope) {
    auto y = torch::empty_like(x);
    int total = x.numel();
    bn_prelu_kernel<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), mean.data_ptr<float>(), var.data_ptr<float>(),
        gamma.data_ptr<float>(), beta.data_ptr<float>(), slope.data_ptr<float>(), y.data_ptr<float>(), total, x.size(1), x.size(2));
    return y;
}
"""

cpp_source = "torch::Tensor bn_prelu(torch::Tensor x, torch::Tensor mean, torch::Tensor var, torch::Tensor gamma, torch::Tensor beta, torch::Tensor slope);"

ext = load_inline(
    name="bn_prelu_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["bn_prelu"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels) * 0.3)
        self.slope = nn.Parameter(torch.full((channels,), 0.25))

    def forward(self, x, mean, variance):
        return ext.bn_prelu(x.contiguous(), mean, variance, self.bias, self.weight, self.slope)
