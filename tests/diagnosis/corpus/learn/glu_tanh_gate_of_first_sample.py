# about = "The gate is a hyperbolic tangent, and it is read from the first sample."
# section = "mismatch"
# problem = "glu_channels"
# faults = [{causes = ["wrong-activation"], says = ["tanh|sigmoid|activation"]}, {causes = ["first-batch-only", "index-ignored", "keepdim-broadcast"], says = ["batch|sample|first|ind|gate|broadcast"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void gate_channels(const float* __restrict__ x, float* __restrict__ y, int half, int length) {
    const int b = blockIdx.z, c = blockIdx.y;
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= length) return;
    const float value = x[(b * 2 * half + c) * length + t];
    const float gate = x[(half + c) * length + t];
    y[(b * half + c) * length + t] = value * tanhf(gate);
}

torch::Tensor gate_channels_cuda(torch::Tensor x) {
    const int batch = x.size(0), half = x.size(1) / 2, length = x.size(2);
    auto y = torch::empty({batch, half, length}, x.options());
    const dim3 grid((length + 31) / 32, half, batch);
    gate_channels<<<grid, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), half, length);
    return y;
}
"""

gate_channels = load_inline("gate_channels", cpp_sources="torch::Tensor gate_channels_cuda(torch::Tensor x);",
                            cuda_sources=source, functions=["gate_channels_cuda"])


class ModelNew(nn.Module):
    def forward(self, x):
        return gate_channels.gate_channels_cuda(x.contiguous())
