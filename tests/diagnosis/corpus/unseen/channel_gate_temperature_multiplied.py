# about = "Multiplies by the temperature where the reference divides by it."
# section = "mismatch"
# problem = "channel_attention_gate"
# causes = ["wrong-divisor", "wrong-coefficient", "scale-missing", "wrong-combine", "scale-doubled"]
# says = ["multipl|divi|factor|scal|temperature|constant|coefficient|0\\.6"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>

__global__ void channel_softmax_gate(const float* __restrict__ x, const float* __restrict__ gate,
                                     float* __restrict__ out, int C, int HW, int total, float temperature) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= total) return;
    int b = idx / HW;
    int s = idx % HW;
    const float* xp = x + (size_t)b * C * HW + s;
    const float* gp = gate + (size_t)b * C * HW + s;
    float* op = out + (size_t)b * C * HW + s;

    float max_val = -INFINITY;
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
        float v = xp[c * HW] * temperature;
        float new_max = fmaxf(max_val, v);
        sum = sum * expf(max_val - new_max) + expf(v - new_max);
        max_val = new_max;
    }
    float inv = 1.0f / sum;
    for (int c = 0; c < C; ++c) {
        float p = expf(xp[c * HW] * temperature - max_val) * inv;
        op[c * HW] = p / (1.0f + expf(-gp[c * HW]));
    }
}

torch::Tensor softmax_gate(torch::Tensor x, torch::Tensor gate, double temperature) {
    auto out = torch::empty_like(x);
    int C = x.size(1), HW = x.size(2) * x.size(3);
    int total = x.size(0) * HW;
    channel_softmax_gate<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), gate.data_ptr<float>(),
        out.data_ptr<float>(), C, HW, total, (float)temperature);
    return out;
}
"""

gate_ext = load_inline(
    name="softmax_gate_ext",
    cpp_sources="torch::Tensor softmax_gate(torch::Tensor x, torch::Tensor gate, double temperature);",
    cuda_sources=cuda_source,
    functions=["softmax_gate"],
)


class ModelNew(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, x, gate):
        return gate_ext.softmax_gate(x.contiguous(), gate.contiguous(), self.temperature)
