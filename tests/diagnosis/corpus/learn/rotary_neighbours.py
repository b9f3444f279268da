# about = "Neighbouring elements are rotated, where the reference rotates the two halves."
# section = "mismatch"
# problem = "rotary"
# causes = ["layout-misread", "wrong-channel"]
# says = ["pair|interleav|half|halves|even|neighbo|layout|ind"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

rope_src = r"""
__global__ void rope_kernel(const float* __restrict__ x, const float* __restrict__ cos_t, const float* __restrict__ sin_t,
                            float* __restrict__ y, int total_pairs, int half, int length) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= total_pairs) return;
    int i = idx % half;
    int row = idx / half;
    int pos = row % length;
    float c = cos_t[pos * half + i];
    float s = sin_t[pos * half + i];
    const float2* src = reinterpret_cast<const float2*>(x + (size_t)row * 2 * half);
    float2* dst = reinterpret_cast<float2*>(y + (size_t)row * 2 * half);
    float2 p = src[i];
    dst[i] = make_float2(p.x * c - p.y * s, p.y * c + p.x * s);
}

torch::Tensor rope_forward(torch::Tensor x, torch::Tensor cos_t, torch::Tensor sin_t) {
    auto y = torch::empty_like(x);
    int length = x.size(2);
    int half = x.size(3) / 2;
    int total = x.numel() / 2;
    const int threads = 256;
    const int blocks = (total + threads - 1) / threads;
    rope_kernel<<<blocks, threads>>>(x.data_ptr<float>(), cos_t.data_ptr<float>(), sin_t.data_ptr<float>(),
                                     y.data_ptr<float>(), total, half, length);
    return y;
}
"""

rope = load_inline(
    name="rope_forward",
    cpp_sources="torch::Tensor rope_forward(torch::Tensor x, torch::Tensor cos_t, torch::Tensor sin_t);",
    cuda_sources=rope_src,
    functions=["rope_forward"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, length, head_size):
        super().__init__()
        inv_freq = 10000.0 ** (-torch.arange(head_size // 2) * 2.0 / head_size)
        angles = torch.outer(torch.arange(length).float(), inv_freq)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x):
        return rope.rope_forward(x.contiguous(), self.cos, self.sin)
