# about = "The ends are filled with zeros where the reference goes round."
# section = "mismatch"
# problem = "circular_conv1d"
# causes = ["padding-mode", "wrong-fill-value", "padding-ignored"]
# says = ["circular|wrap|pad|border|zero|fill|ring|round"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_sources = r"""
#include <torch/extension.h>

__global__ void conv1d_kernel(const float* __restrict__ x, const float* __restrict__ weight,
                              const float* __restrict__ bias, float* __restrict__ y, int inner, int outer, int length,
                              int window) {
    extern __shared__ float line[];
    const int b = blockIdx.x;
    const int reach = window / 2, span = length + 2 * reach;
    for (int i = threadIdx.x; i < inner * span; i += blockDim.x) {
        const int t = i % span - reach;
        line[i] = (t >= 0 && t < length) ? x[((size_t)b * inner + i / span) * length + t] : 0.f;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < outer * length; i += blockDim.x) {
        const int o = i / length, t = i % length;
        float sum = bias[o];
        for (int c = 0; c < inner; ++c)
            for (int k = 0; k < window; ++k) sum += weight[(o * inner + c) * window + k] * line[c * span + t + k];
        y[((size_t)b * outer + o) * length + t] = sum;
    }
}

torch::Tensor conv1d_forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    const int inner = x.size(1), length = x.size(2), outer = weight.size(0), window = weight.size(2);
    auto y = torch::empty({x.size(0), outer, length}, x.options());
    const int bytes = inner * (length + 2 * (window / 2)) * sizeof(float);
    conv1d_kernel<<<x.size(0), 128, bytes>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                                             y.data_ptr<float>(), inner, outer, length, window);
    return y;
}
"""

conv_mod = load_inline(
    name="conv1d_mod",
    cpp_sources="torch::Tensor conv1d_forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);",
    cuda_sources=cuda_sources,
    functions=["conv1d_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer, window):
        super().__init__()
        self.conv = nn.Conv1d(inner, outer, window, padding=window // 2, padding_mode="circular")

    def forward(self, x):
        return conv_mod.conv1d_forward(x.contiguous(), self.conv.weight, self.conv.bias)
