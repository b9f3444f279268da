# about = "A right answer: rows into the output, then columns within it."
# section = "right"
# problem = "integral_image"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void row_pass(const float* __restrict__ in, float* __restrict__ out, int lines, int w) {
    int line = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    int lane = threadIdx.x & 31;
    if (line >= lines) return;
    float carry = 0.f;
    for (int base = 0; base < w; base += 32) {
        int c = base + lane;
        float v = c < w ? __ldg(in + (size_t)line * w + c) : 0.f;
        for (int d = 1; d < 32; d <<= 1) {
            float u = __shfl_up_sync(0xffffffff, v, d);
            if (lane >= d) v += u;
        }
        if (c < w) out[(size_t)line * w + c] = v + carry;
        carry += __shfl_sync(0xffffffff, v, 31);
    }
}

__global__ void column_pass(float* data, int planes, int h, int w) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < planes * w; i += gridDim.x * blockDim.x) {
        float* p = data + (size_t)(i / w) * h * w + i % w;
        float s = 0.f;
        for (int r = 0; r < h; ++r, p += w) {
            s += *p;
            *p = s;
        }
    }
}

torch::Tensor integral_image(torch::Tensor x) {
    auto out = torch::empty_like(x);
    auto stream = at::cuda::getCurrentCUDAStream();
    int planes = x.size(0), h = x.size(1), w = x.size(2);
    row_pass<<<(planes * h + 3) / 4, 128, 0, stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), planes * h, w);
    column_pass<<<2, 64, 0, stream>>>(out.data_ptr<float>(), planes, h, w);
    return out;
}
"""

integral = load_inline(
    name="integral_two_pass",
    cpp_sources="torch::Tensor integral_image(torch::Tensor x);",
    cuda_sources=source,
    functions=["integral_image"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return integral.integral_image(x.contiguous())
