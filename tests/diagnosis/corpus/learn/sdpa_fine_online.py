# about = "Online softmax over keys in reverse order, fast exponentials of base two."
# section = "right"
# problem = "attention_plain"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <cuda_runtime.h>

// A warp holds one query; each lane holds a part of the head. Keys are visited from the last to the first.
__global__ void reverse_online(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                               float* __restrict__ o, int rows, int n, int m, int d) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x & 31;
    if (warp >= rows) return;
    int head = warp / n;
    float qs = lane < d ? q[warp * d + lane] : 0.f;
    const float factor = 1.4426950408889634f * rsqrtf((float)d);
    float top = -INFINITY, sum = 0.f, acc = 0.f;
    for (int j = m - 1; j >= 0; --j) {
        int at = (head * m + j) * d + lane;
        float s = lane < d ? qs * k[at] : 0.f;
        #pragma unroll
        for (int w = 1; w < 32; w <<= 1) s += __shfl_xor_sync(0xffffffffu, s, w);
        s *= factor;
        if (s > top) {
            float shrink = exp2f(top - s);
            sum *= shrink;
            acc *= shrink;
            top = s;
        }
        float p = exp2f(s - top);
        sum += p;
        if (lane < d) acc = fmaf(p, v[at], acc);
    }
    if (lane < d) o[warp * d + lane] = acc / sum;
}

torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    TORCH_CHECK(q.size(3) <= 32, "one lane per column");
    auto o = torch::empty_like(q);
    int n = q.size(2), m = k.size(2), d = q.size(3);
    int rows = q.size(0) * q.size(1) * n;
    reverse_online<<<(rows * 32 + 127) / 128, 128>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
                                                   o.data_ptr<float>(), rows, n, m, d);
    return o;
}
"""

ext = load_inline(
    name="reverse_online",
    cpp_sources="torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v);",
    cuda_sources=cuda_source,
    functions=["forward"],
)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return ext.forward(q.contiguous(), k.contiguous(), v.contiguous())
