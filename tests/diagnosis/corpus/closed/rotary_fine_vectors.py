# about = "Pairs of pairs by float2, with explicitly rounded products and sums."
# section = "right"
# problem = "rotary"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

kernel_source = r"""
__global__ void rotate_vectors(const float* x, const float* cs, const float* sn, float* y, int jobs, int length, int half) {
    int job = blockIdx.x * blockDim.x + threadIdx.x;
    if (job >= jobs) return;
    int per_row = half / 2;
    int row = job / per_row, at = job % per_row * 2;
    const float* base = x + row * 2 * half;
    float2 a = *(const float2*)(base + at);
    float2 b = *(const float2*)(base + half + at);
    float2 c = *(const float2*)(cs + row % length * half + at);
    float2 s = *(const float2*)(sn + row % length * half + at);
    float2 first, second;
    first.x = __fsub_rn(__fmul_rn(a.x, c.x), __fmul_rn(b.x, s.x));
    first.y = __fsub_rn(__fmul_rn(a.y, c.y), __fmul_rn(b.y, s.y));
    second.x = __fadd_rn(__fmul_rn(b.x, c.x), __fmul_rn(a.x, s.x));
    second.y = __fadd_rn(__fmul_rn(b.y, c.y), __fmul_rn(a.y, s.y));
    *(float2*)(y + row * 2 * half + at) = first;
    *(float2*)(y + row * 2 * half + half + at) = second;
}

torch::Tensor rotate_vectors_cuda(torch::Tensor x, torch::Tensor cs, torch::Tensor sn) {
    int half = x.size(3) / 2;
    TORCH_CHECK(half % 2 == 0, "vectors of two");
    auto y = torch::empty_like(x);
    int jobs = x.numel() / 4;
    rotate_vectors<<<(jobs + 63) / 64, 64>>>(x.data_ptr<float>(), cs.data_ptr<float>(), sn.data_ptr<float>(),
                                           y.data_ptr<float>(), jobs, x.size(2), half);
    return y;
}
"""

ext = load_inline(
    name="rotate_vectors",
    cpp_sources="torch::Tensor rotate_vectors_cuda(torch::Tensor x, torch::Tensor cs, torch::Tensor sn);",
    cuda_sources=kernel_source,
    functions=["rotate_vectors_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, length, head_size):
        super().__init__()
        self.register_buffer("cos", torch.ones(length, head_size // 2))
        self.register_buffer("sin", torch.zeros(length, head_size // 2))
        frequency = 10000.0 ** (-torch.arange(head_size // 2) * 2.0 / head_size)
        angle = torch.arange(length)[:, None] * frequency
        self.cos.copy_(angle.cos())
        self.sin.copy_(angle.sin())

    def forward(self, x):
        return ext.rotate_vectors_cuda(x.contiguous(), self.cos, self.sin)
