# about = "Writes the result over its input."
# section = "run"
# problem = "batch_norm_relu"
# causes = ["input-modified", "output-aliases-input"]
# says = ["input"]
# stage = ["run", "verify", "integrity"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

bn_relu_cpp = """
torch::Tensor bn_relu_forward(torch::Tensor input, torch::Tensor running_mean, torch::Tensor running_var,
                              torch::Tensor weight, torch::Tensor bias, double eps);
"""
bn_relu_cuda = r"""
#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>

__global__ void bn_relu_kernel(const float* input, const float* running_mean, const float* running_var,
                               const float* weight, const float* bias, float* output,
                               int total, int C, int spatial, float eps) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int stride = blockDim.x * gridDim.x;
    for (int i = idx; i < total; i += stride) {
        int c = (i / spatial) % C;
        float scale = weight[c] * rsqrtf(running_var[c] + eps);
        float value = (input[i] - running_mean[c]) * scale + bias[c];
        output[i] = fmaxf(value, 0.0f);
    }
}

torch::Tensor bn_relu_forward(torch::Tensor input, torch::Tensor running_mean, torch::Tensor running_var,
                              torch::Tensor weight, torch::Tensor bias, double eps) {
    auto output = input;
    int total = input.numel();
    int C = input.size(1);
    int spatial = input.size(2) * input.size(3);
    int threads = 256;
    int blocks = (total + threads - 1) / threads;
    bn_relu_kernel<<<blocks, threads>>>(
        input.data_ptr<float>(), running_mean.data_ptr<float>(), running_var.data_ptr<float>(),
        weight.data_ptr<float>(), bias.data_ptr<float>(), output.data_ptr<float>(),
        total, C, spatial, static_cast<float>(eps));
    return output;
}
"""

bn_relu = load_inline(
    name="bn_relu",
    cpp_sources=bn_relu_cpp,
    cuda_sources=bn_relu_cuda,
    functions=["bn_relu_forward"],
    verbose=True,
)


class ModelNew(nn.Module):
    """Fused inference BatchNorm and ReLU."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.eval()
        self.bn_relu = bn_relu

    def forward(self, x):
        n = self.norm
        return self.bn_relu.bn_relu_forward(x.contiguous(), n.running_mean, n.running_var, n.weight, n.bias, n.eps)
