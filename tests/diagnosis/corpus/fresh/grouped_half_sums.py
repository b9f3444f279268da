# about = "Elements are summed in half precision."
# section = "mismatch"
# problem = "conv1d_grouped_dilated"
# causes = ["reduced-precision", "precision-loss"]
# says = ["half|precision|float16|fp16|bits|accur"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="grouped_conv_cuda",
    cpp_sources="torch::Tensor grouped_conv(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);",
    cuda_sources=r"""
#include <cuda_fp16.h>

__global__ void grouped_conv_gelu(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                                  float* __restrict__ out, int C, int L, int per_group) {
    int l = threadIdx.x;
    int c = blockIdx.x;
    int n = blockIdx.y;
    if (l >= L) return;
    int first = c / per_group * per_group;
    float acc = bias[c];
    for (int i = 0; i < per_group; ++i) {
        const float* row = x + (n * C + first + i) * L;
        for (int k = 0; k < 3; ++k) {
            int pos = l + (k - 1) * 3;
            if (pos >= 0 && pos < L) acc = __half2float(__float2half(acc + row[pos] * weight[(c * per_group + i) * 3 + k]));
        }
    }
    float gelu = 0.5f * acc * (1.0f + erff(acc * 0.70710678f));
    out[(n * C + c) * L + l] = x[(n * C + c) * L + l] + gelu;
}

torch::Tensor grouped_conv(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    int N = x.size(0), C = x.size(1), L = x.size(2);
    TORCH_CHECK(L <= 1024);
    auto out = torch::empty_like(x);
    grouped_conv_gelu<<<dim3(C, N), (L + 31) / 32 * 32>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(),
        out.data_ptr<float>(), C, L, weight.size(1));
    return out;
}
""",
    functions=["grouped_conv"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 3, padding=3, dilation=3, groups=groups)

    def forward(self, x):
        return ext.grouped_conv(x.contiguous(), self.conv.weight, self.conv.bias)
