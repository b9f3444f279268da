# about = "The first half of the channels goes through the sigmoid and the second through the tanh."
# section = "mismatch"
# problem = "gated_causal"
# causes = ["operands-swapped", "wrong-activation", "outputs-swapped", "wrong-channel"]
# says = ["half|halves|swap|exchang|operand|gate|channel|sigmoid|tanh"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

wave_src = r"""
#include <torch/extension.h>

__device__ __forceinline__ float sigmoidf(float v) { return 1.0f / (1.0f + expf(-v)); }

// one block computes one time step of one sample
__global__ void wave_block(const float* x, const float* w, const float* b, const float* ow, const float* ob, float* y,
                           int channels, int length, int dilation) {
    extern __shared__ float hidden[];
    int t = blockIdx.x, n = blockIdx.y, c = threadIdx.x;
    const float* sample = x + n * channels * length;
    if (c < channels) {
        float first = b[c], second = b[channels + c];
        for (int i = 0; i < channels; i++) {
            for (int k = 0; k < 3; k++) {
                int at = t - (2 - k) * dilation;
                if (at < 0) continue;
                float v = sample[i * length + at];
                first += w[(c * channels + i) * 3 + k] * v;
                second += w[((channels + c) * channels + i) * 3 + k] * v;
            }
        }
        hidden[c] = sigmoidf(first) * tanhf(second);
    }
    __syncthreads();
    if (c < channels) {
        float acc = ob[c];
        for (int i = 0; i < channels; i++) acc += ow[c * channels + i] * hidden[i];
        y[(n * channels + c) * length + t] = sample[c * length + t] + acc;
    }
}

torch::Tensor wave(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor ow, torch::Tensor ob,
                   int64_t dilation) {
    auto y = torch::empty_like(x);
    int channels = x.size(1), length = x.size(2);
    int threads = (channels + 31) / 32 * 32;
    wave_block<<<dim3(length, x.size(0)), threads, channels * sizeof(float)>>>(x.data_ptr<float>(),
        w.data_ptr<float>(), b.data_ptr<float>(), ow.data_ptr<float>(), ob.data_ptr<float>(), y.data_ptr<float>(),
        channels, length, dilation);
    return y;
}
"""

wave_ext = load_inline(
    name="wave_ext",
    cpp_sources="torch::Tensor wave(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor ow, torch::Tensor ob, int64_t dilation);",
    cuda_sources=wave_src,
    functions=["wave"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.conv = nn.Conv1d(channels, 2 * channels, 3, dilation=dilation)
        self.out = nn.Conv1d(channels, channels, 1)
        self.dilation = dilation

    def forward(self, x):
        return wave_ext.wave(
            x.contiguous(), self.conv.weight, self.conv.bias, self.out.weight, self.out.bias, self.dilation
        )
