# about = "The slot that was just written is not counted among the valid ones in the sum."
# section = "mismatch"
# problem = "cache_append"
# causes = ["last-element-left-out"]
# says = ["last|one too|short|early|element|slot|exclu"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda = r"""
__global__ void append_kernel(float* cache, const float* fresh, const int64_t* pos, int slots, int inner, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) {
        int b = i / inner, j = i % inner;
        cache[((long)b * slots + pos[b]) * inner + j] = fresh[i];
    }
}

__global__ void mean_kernel(const float* cache, const int64_t* pos, float* out, int slots, int inner) {
    int b = blockIdx.x;
    int valid = (int)pos[b];
    for (int j = threadIdx.x; j < inner; j += blockDim.x) {
        const float* p = cache + (long)b * slots * inner + j;
        float s = 0.f;
        for (int t = 0; t < valid; ++t) s += p[t * inner];
        out[b * inner + j] = s / (valid + 1);
    }
}

torch::Tensor append(torch::Tensor cache, torch::Tensor fresh, torch::Tensor pos) {
    auto out = torch::empty_like(fresh);
    int batch = cache.size(0), slots = cache.size(1), inner = cache.size(2) * cache.size(3);
    append_kernel<<<(batch * inner + 63) / 64, 64>>>(cache.data_ptr<float>(), fresh.data_ptr<float>(), pos.data_ptr<int64_t>(),
                                                     slots, inner, batch * inner);
    mean_kernel<<<batch, 32>>>(cache.data_ptr<float>(), pos.data_ptr<int64_t>(), out.data_ptr<float>(), slots, inner);
    return out;
}
"""
kv = load_inline(
    name="kv_append",
    cpp_sources="torch::Tensor append(torch::Tensor cache, torch::Tensor fresh, torch::Tensor pos);",
    cuda_sources=cuda,
    functions=["append"],
)


class ModelNew(nn.Module):
    def forward(self, cache, new, position):
        out = kv.append(cache, new.contiguous(), position)
        return cache, out
