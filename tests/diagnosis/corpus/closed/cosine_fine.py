# about = "A right answer: each vector's length by itself, a warp per pair."
# section = "right"
# problem = "cosine_pairs"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void warp_cosine(const float* a, const float* b, const float* like, float* out, int pairs, int width, float margin) {
    int pair = blockIdx.x * blockDim.y + threadIdx.y;
    if (pair >= pairs) return;
    float ab = 0.f, aa = 0.f, bb = 0.f;
    for (int c = threadIdx.x; c < width; c += 32) {
        float u = a[pair * width + c], v = b[pair * width + c];
        ab = fmaf(u, v, ab);
        aa = fmaf(u, u, aa);
        bb = fmaf(v, v, bb);
    }
    for (int o = 1; o < 32; o <<= 1) {
        ab += __shfl_xor_sync(0xffffffffu, ab, o);
        aa += __shfl_xor_sync(0xffffffffu, aa, o);
        bb += __shfl_xor_sync(0xffffffffu, bb, o);
    }
    if (threadIdx.x == 0) {
        float c = ab / (sqrtf(aa + 1e-12f) * sqrtf(bb + 1e-12f));
        out[pair] = like[pair] == 1.f ? 1.f - c : (like[pair] == -1.f ? fmaxf(0.f, c - margin) : 0.f);
    }
}

torch::Tensor warp_pairs(torch::Tensor a, torch::Tensor b, torch::Tensor like, double margin) {
    int n = a.size(0);
    auto out = torch::empty({n}, a.options());
    warp_cosine<<<(n + 3) / 4, dim3(32, 4)>>>(a.data_ptr<float>(), b.data_ptr<float>(), like.data_ptr<float>(),
                                            out.data_ptr<float>(), n, a.size(1), (float)margin);
    return out;
}
"""

ext = load_inline(
    name="warp_pairs",
    cpp_sources="torch::Tensor warp_pairs(torch::Tensor a, torch::Tensor b, torch::Tensor like, double margin);",
    cuda_sources=source,
    functions=["warp_pairs"],
)


class ModelNew(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, a, b, like):
        return ext.warp_pairs(a.contiguous(), b.contiguous(), like.contiguous(), self.margin)
