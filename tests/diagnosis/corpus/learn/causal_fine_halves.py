# about = "Two warps take the even and the odd keys and merge their sums in shared memory."
# section = "right"
# problem = "attention_causal"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <cuda_runtime.h>

struct Part {
    float top;
    float sum;
};

__global__ void split_causal(const float* q, const float* k, const float* v, float* o, int n, int d) {
    __shared__ Part parts[2];
    __shared__ float values[2][32];
    int row = blockIdx.x, head = row / n, place = row % n;
    int half = threadIdx.x / 32, lane = threadIdx.x % 32;
    float qv = lane < d ? q[row * d + lane] * (1.f / sqrtf((float)d)) : 0.f;
    float top = -INFINITY, sum = 0.f, acc = 0.f;
    for (int j = half; j <= place; j += 2) {
        float s = lane < d ? qv * k[(head * n + j) * d + lane] : 0.f;
        for (int w = 16; w > 0; w >>= 1) s += __shfl_xor_sync(0xffffffffu, s, w);
        float next = fmaxf(top, s);
        float keep = expf(top - next), fresh = expf(s - next);
        sum = sum * keep + fresh;
        acc = acc * keep + (lane < d ? fresh * v[(head * n + j) * d + lane] : 0.f);
        top = next;
    }
    values[half][lane] = acc;
    if (lane == 0) parts[half] = {top, sum};
    __syncthreads();
    if (half == 0 && lane < d) {
        Part a = parts[0], b = parts[1];
        float high = fmaxf(a.top, b.top);
        float wa = expf(a.top - high), wb = expf(b.top - high);
        o[row * d + lane] = (values[0][lane] * wa + values[1][lane] * wb) / (a.sum * wa + b.sum * wb);
    }
}

torch::Tensor split(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    auto o = torch::empty_like(q);
    int n = q.size(2), d = q.size(3);
    TORCH_CHECK(d <= 32, "up to 32 columns");
    split_causal<<<q.numel() / d, 64>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), o.data_ptr<float>(), n, d);
    return o;
}
"""

extension = load_inline(
    name="split_causal",
    cpp_sources="torch::Tensor split(torch::Tensor q, torch::Tensor k, torch::Tensor v);",
    cuda_sources=source,
    functions=["split"],
)


class ModelNew(nn.Module):
    def __init__(self, length):
        super().__init__()

    def forward(self, q, k, v):
        return extension.split(q.contiguous(), k.contiguous(), v.contiguous())
