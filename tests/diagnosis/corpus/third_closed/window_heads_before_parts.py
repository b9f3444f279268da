# about = "The packed tensor is read as heads times (query, key, value), though the three parts come before the heads."
# section = "mismatch"
# problem = "window_padding_attention"
# causes = ["layout-misread", "wrong-axis", "transposed-operand", "coordinates-swapped", "wrong-channel", "operands-swapped", "index-ignored", "inverse-permutation"]
# says = ["layout|stride|order|axis|dim|transpos|interleav|head|channel|operand|swap|index|exchang"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

#define MAX_STEPS 64

__global__ void windowed_attention(const float* qkv, const int64_t* lengths, float* out, int steps, int heads, int width, int radius) {
    __shared__ float p[MAX_STEPS];
    __shared__ float total;
    const int t = blockIdx.x, h = blockIdx.y, b = blockIdx.z;
    const int len = lengths[b];
    const int stride = 3 * heads * width;
    const float* sample = qkv + (size_t)b * steps * stride;
    const float* q = sample + t * stride + h * 3 * width;

    for (int j = threadIdx.x; j < steps; j += blockDim.x) {
        const float* k = sample + j * stride + h * 3 * width + width;
        float s = 0.f;
        for (int d = 0; d < width; ++d) s += q[d] * k[d];
        const bool visible = j < len && j >= t - radius && j <= t + radius;
        p[j] = visible ? s * rsqrtf((float)width) : -INFINITY;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float m = -INFINITY;
        for (int j = 0; j < steps; ++j) m = fmaxf(m, p[j]);
        total = 0.f;
        for (int j = 0; j < steps; ++j) total += p[j] = p[j] == -INFINITY ? 0.f : expf(p[j] - m);
    }
    __syncthreads();
    for (int d = threadIdx.x; d < width; d += blockDim.x) {
        float acc = 0.f;
        for (int j = 0; j < len; ++j) acc += p[j] * sample[j * stride + h * 3 * width + 2 * width + d];
        out[((size_t)(b * steps + t) * heads + h) * width + d] = t < len ? acc / total : 0.f;
    }
}

torch::Tensor forward(torch::Tensor qkv, torch::Tensor lengths, int64_t radius) {
    const auto b = qkv.size(0), t = qkv.size(1), h = qkv.size(3), d = qkv.size(4);
    TORCH_CHECK(t <= MAX_STEPS, "too many steps");
    auto out = torch::empty({b, t, h * d}, qkv.options());
    windowed_attention<<<dim3(t, h, b), 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        qkv.data_ptr<float>(), lengths.data_ptr<int64_t>(), out.data_ptr<float>(), t, h, d, radius);
    return out;
}
"""
attn = load_inline(
    name="windowed_attention",
    cpp_sources="torch::Tensor forward(torch::Tensor qkv, torch::Tensor lengths, int64_t radius);",
    cuda_sources=source,
    functions=["forward"],
    extra_cuda_cflags=["--use_fast_math"],
)


class ModelNew(nn.Module):
    def __init__(self, radius):
        super().__init__()
        self.radius = radius

    def forward(self, qkv, lengths):
        return attn.forward(qkv.contiguous(), lengths.contiguous(), self.radius)
