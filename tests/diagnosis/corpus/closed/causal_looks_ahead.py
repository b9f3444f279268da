# about = "The mask is turned round: queries see the keys from themselves to the end."
# section = "mismatch"
# problem = "attention_causal"
# causes = ["mask-inverted", "scan-reversed"]
# says = ["mask|causal|future|revers|invert|upper|lower"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

code = r"""
#include <torch/extension.h>

template <typename T>
__device__ T warp_sum(T x) {
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_down_sync(0xffffffff, x, offset);
    return __shfl_sync(0xffffffff, x, 0);
}

__global__ void decoder_attention(const float* __restrict__ query, const float* __restrict__ key,
                                  const float* __restrict__ value, float* __restrict__ result,
                                  int heads, int steps, int width) {
    const int warps = blockDim.x / 32;
    const int step = blockIdx.x * warps + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (step >= steps) return;
    const int head = blockIdx.y;
    const float* keys = key + head * steps * width;
    const float* values = value + head * steps * width;
    const float mine = lane < width ? query[(head * steps + step) * width + lane] / sqrtf(float(width)) : 0.f;

    float peak = -INFINITY, norm = 0.f, out = 0.f;
    for (int other = 0; other < steps; ++other) {
        if (step > other) continue;
        const float score = warp_sum(lane < width ? mine * keys[other * width + lane] : 0.f);
        const float next = fmaxf(peak, score);
        const float old = expf(peak - next), now = expf(score - next);
        norm = norm * old + now;
        out = out * old + (lane < width ? now * values[other * width + lane] : 0.f);
        peak = next;
    }
    if (lane < width) result[(head * steps + step) * width + lane] = out / norm;
}

torch::Tensor decode(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
    const int batch = q.size(0), heads = q.size(1), steps = q.size(2), width = q.size(3);
    TORCH_CHECK(width <= 32);
    auto result = torch::empty_like(q);
    const dim3 grid((steps + 3) / 4, batch * heads);
    decoder_attention<<<grid, 128>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
                                     result.data_ptr<float>(), heads, steps, width);
    return result;
}
"""

_ext = load_inline(
    name="decoder_attention",
    cpp_sources="torch::Tensor decode(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v);",
    cuda_sources=code,
    functions=["decode"],
)


class ModelNew(torch.nn.Module):
    def __init__(self, length):
        super().__init__()

    def forward(self, q, k, v):
        return _ext.decode(q.contiguous(), k.contiguous(), v.contiguous())
