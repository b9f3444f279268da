# about = "The zero point is the middle of the range, 8, for every group."
# section = "mismatch"
# problem = "nibble_linear"
# causes = ["constant-added", "index-ignored", "hard-coded-size", "wrong-coefficient"]
# says = ["zero|8|constant|subtract|ignored|missing|point"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void int4_linear(const float* x, const int64_t* packed, const float* scale, const float* zero, float* y,
                            int B, int K, int N, int groups) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (warp >= B * N) return;
    int b = warp / N, n = warp % N;
    int size = K / groups;
    float acc = 0.f;
    for (int p = lane; p < K / 2; p += 32) {
        int byte = (int)packed[n * (K / 2) + p];
        int g = 2 * p / size;
        float s = scale[n * groups + g], z = 8.f;
        float w0 = ((byte & 15) - z) * s;
        float w1 = ((byte >> 4) - z) * s;
        acc += x[b * K + 2 * p] * w0 + x[b * K + 2 * p + 1] * w1;
    }
    for (int o = 16; o > 0; o >>= 1) acc += __shfl_down_sync(0xffffffffu, acc, o);
    if (lane == 0) y[b * N + n] = acc;
}

torch::Tensor int4_linear_forward(torch::Tensor x, torch::Tensor packed, torch::Tensor scale, torch::Tensor zero) {
    int B = x.size(0), K = x.size(1), N = packed.size(0);
    auto y = torch::empty({B, N}, x.options());
    int threads = 128, warps = B * N;
    int4_linear<<<(warps + 3) / 4, threads>>>(x.data_ptr<float>(), packed.data_ptr<int64_t>(), scale.data_ptr<float>(), zero.data_ptr<float>(),
        y.data_ptr<float>(), B, K, N, scale.size(1));
    return y;
}
"""

ext = load_inline("int4_linear_forward_module", ["torch::Tensor int4_linear_forward(torch::Tensor x, torch::Tensor packed, torch::Tensor scale, torch::Tensor zero);"], [SOURCE], functions=["int4_linear_forward"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x, packed, scale, zero):
        return ext.int4_linear_forward(x.contiguous(), packed.contiguous(), scale.contiguous(), zero.contiguous())
