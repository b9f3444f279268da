# about = "Every sample writes at the position of the first."
# section = "mismatch"
# problem = "cache_append"
# causes = ["index-ignored", "first-batch-only"]
# says = ["position|ind|first|row|sample"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>

struct Shape { int batch, slots, heads, width; };

__global__ void write_slot(float* __restrict__ cache, const float* __restrict__ kv, const long* __restrict__ position, Shape s) {
    const long slot = position[blockIdx.z];
    const int head = blockIdx.x, sample = blockIdx.y;
    for (int d = threadIdx.x; d < s.width; d += blockDim.x)
        cache[((sample * s.slots + slot) * s.heads + head) * s.width + d] = kv[(sample * s.heads + head) * s.width + d];
}

__global__ void average_valid(const float* __restrict__ cache, const long* __restrict__ position, float* __restrict__ out, Shape s) {
    const int head = blockIdx.x, sample = blockIdx.y;
    const long last = position[sample];
    for (int d = threadIdx.x; d < s.width; d += blockDim.x) {
        float acc = 0.0f;
        for (long t = 0; t <= last; t++) acc += cache[((sample * s.slots + t) * s.heads + head) * s.width + d];
        out[(sample * s.heads + head) * s.width + d] = acc / (float)(last + 1);
    }
}

torch::Tensor step(torch::Tensor cache, torch::Tensor kv, torch::Tensor position) {
    Shape s{(int)cache.size(0), (int)cache.size(1), (int)cache.size(2), (int)cache.size(3)};
    auto out = torch::empty({s.batch, s.heads, s.width}, cache.options());
    const long* pos = (const long*)position.data_ptr<int64_t>();
    dim3 grid(s.heads, s.batch, 1);
    write_slot<<<grid, 32>>>(cache.data_ptr<float>(), kv.data_ptr<float>(), pos, s);
    average_valid<<<grid, 32>>>(cache.data_ptr<float>(), pos, out.data_ptr<float>(), s);
    return out;
}
"""
mod = load_inline(name="cache_step", cpp_sources="torch::Tensor step(torch::Tensor cache, torch::Tensor kv, torch::Tensor position);", cuda_sources=src, functions=["step"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, cache, new, position):
        mean = mod.step(cache, new.contiguous(), position.contiguous())
        return cache, mean
