# about = "The window is strict: keys exactly at the radius are not seen."
# section = "mismatch"
# problem = "window_padding_attention"
# causes = ["mask-shifted", "index-off-by-one", "pool-window", "last-element-left-out", "lost-lanes"]
# says = ["mask|window|border|off by one|radius|diagonal|last|element|narrow|too|one"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void local_attention_kernel(const float* __restrict__ qkv, const int64_t* __restrict__ lengths, float* __restrict__ out,
                                       int steps, int heads, int width, int radius) {
    // grid: (steps, heads, batch), one warp per query
    const int query = blockIdx.x, head = blockIdx.y, b = blockIdx.z, lane = threadIdx.x;
    const int row = 3 * heads * width;
    const float* base = qkv + (size_t)b * steps * row + head * width;
    float* dst = out + ((size_t)b * steps + query) * heads * width + head * width;
    const int length = (int)lengths[b];
    if (query >= length) {
        if (lane < width) dst[lane] = 0.f;
        return;
    }
    const float* q = base + query * row;
    const int key = query - radius + lane;
    float score = -INFINITY;
    if (lane <= 2 * radius && key >= 0 && key < length && abs(key - query) < radius) {
        const float* k = base + key * row + heads * width;
        score = 0.f;
        for (int d = 0; d < width; ++d) score += q[d] * k[d];
        score /= sqrtf((float)width);
    }
    float top = score;
    for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    float p = expf(score - top);
    float sum = p;
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
    p /= sum;
    float acc = 0.f;
    for (int i = 0; i <= 2 * radius; ++i) {
        const float pi = __shfl_sync(0xffffffff, p, i);
        const int j = query - radius + i;
        if (j >= 0 && j < length && lane < width) acc += pi * base[j * row + 2 * heads * width + lane];
    }
    if (lane < width) dst[lane] = acc;
}

torch::Tensor local_attention(torch::Tensor qkv, torch::Tensor lengths, int64_t radius) {
    const int batch = qkv.size(0), steps = qkv.size(1), heads = qkv.size(3), width = qkv.size(4);
    TORCH_CHECK(radius < 16 && width <= 32);
    auto out = torch::empty({batch, steps, heads * width}, qkv.options());
    local_attention_kernel<<<dim3(steps, heads, batch), 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        qkv.data_ptr<float>(), lengths.data_ptr<int64_t>(), out.data_ptr<float>(), steps, heads, width, radius);
    return out;
}
"""

local = load_inline(
    name="local_attention_ext",
    cpp_sources="torch::Tensor local_attention(torch::Tensor qkv, torch::Tensor lengths, int64_t radius);",
    cuda_sources=cuda_source,
    functions=["local_attention"],
)


class ModelNew(nn.Module):
    def __init__(self, radius):
        super().__init__()
        self.radius = radius

    def forward(self, qkv, lengths):
        return local.local_attention(qkv.contiguous(), lengths, self.radius)
