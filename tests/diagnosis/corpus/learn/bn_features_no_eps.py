# about = "The eps of the batch norm is left out."
# section = "mismatch"
# problem = "bn_features_silu"
# causes = ["eps-omitted"]
# says = ["eps"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

kernel_code = r"""
#include <torch/extension.h>

__global__ void bn_silu_gain(const float* x, const float* gain, const float* mean, const float* var, const float* gamma,
                             const float* beta, float* y, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || col >= cols) return;
    float scale = gamma[col] * rsqrtf(var[col]);
    float z = (x[row * cols + col] - mean[col]) * scale + beta[col];
    float s = 1.0f / (1.0f + expf(-z));
    y[row * cols + col] = z * s * gain[row];
}

torch::Tensor bn_silu_gain_cuda(torch::Tensor x, torch::Tensor gain, torch::Tensor mean, torch::Tensor var, torch::Tensor gamma, torch::Tensor beta) {
    int rows = x.size(0), cols = x.size(1);
    auto y = torch::empty({rows, cols}, x.options());
    dim3 block(16, 8);
    dim3 grid((cols + block.x - 1) / block.x, (rows + block.y - 1) / block.y);
    bn_silu_gain<<<grid, block>>>(x.data_ptr<float>(), gain.data_ptr<float>(), mean.data_ptr<float>(), var.data_ptr<float>(),
                                  gamma.data_ptr<float>(), beta.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}
"""
decl = "torch::Tensor bn_silu_gain_cuda(torch::Tensor x, torch::Tensor gain, torch::Tensor mean, torch::Tensor var, torch::Tensor gamma, torch::Tensor beta);"
bn_silu = load_inline(name="bn_silu", cpp_sources=decl, cuda_sources=kernel_code, functions=["bn_silu_gain_cuda"], verbose=True)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features, eps=1e-3)

    def forward(self, x, gain):
        return bn_silu.bn_silu_gain_cuda(
            x.contiguous(),
            gain.contiguous(),
            self.norm.running_mean,
            self.norm.running_var,
            self.norm.weight,
            self.norm.bias,
        )
