# about = "Keys further away than the table get no bias, where the reference gives them that of the furthest distance."
# section = "mismatch"
# problem = "gqa_relative_bias"
# causes = ["bias-missing", "clamp-missing", "clamp-bounds", "operator-missing", "bias-wrong-index", "wrong-fill-value", "padding-mode", "padding-ignored", "last-element-left-out"]
# says = ["bias|distance|far|clamp|bound|index|fill|pad|last|table"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <ATen/cuda/CUDAContext.h>

constexpr int WARP = 32;

__device__ inline float warp_max(float v) {
    for (int o = WARP / 2; o > 0; o /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
    return v;
}
__device__ inline float warp_sum(float v) {
    for (int o = WARP / 2; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

// A warp owns a query. Lanes run over the keys, then over the features.
__global__ void attend(const float* q, const float* k, const float* v, const float* table, float* y,
                       int B, int H, int G, int T, int D, int R) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    if (warp >= B * H * T) return;
    int t = warp % T, h = warp / T % H, b = warp / (T * H), g = h / (H / G);
    const float* qr = q + (size_t)warp * D;
    const float* kb = k + (size_t)(b * G + g) * T * D;
    const float* vb = v + (size_t)(b * G + g) * T * D;
    float s = -INFINITY;
    if (lane <= t) {
        s = 0.f;
        for (int d = 0; d < D; ++d) s = fmaf(qr[d], kb[lane * D + d], s);
        s *= rsqrtf((float)D);
        int distance = t - lane;
        if (distance < R) s += table[h * R + distance];
    }
    float m = warp_max(s);
    float p = lane <= t ? expf(s - m) : 0.f;
    p /= warp_sum(p);
    float acc = 0.f;
    for (int j = 0; j <= t; ++j) {
        float pj = __shfl_sync(0xffffffffu, p, j);
        if (lane < D) acc = fmaf(pj, vb[j * D + lane], acc);
    }
    if (lane < D) y[(size_t)warp * D + lane] = acc;
}

torch::Tensor attend_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor table) {
    int B = q.size(0), H = q.size(1), T = q.size(2), D = q.size(3), G = k.size(1);
    TORCH_CHECK(T <= 32 && D <= 32, "a warp holds at most 32 keys and features");
    auto y = torch::empty_like(q);
    int warps = B * H * T, per_block = 4;
    attend<<<(warps + per_block - 1) / per_block, per_block * WARP, 0, at::cuda::getCurrentCUDAStream()>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), table.data_ptr<float>(), y.data_ptr<float>(),
        B, H, G, T, D, table.size(1));
    return y;
}
"""

ext = load_inline(
    name="warp_attend",
    cpp_sources="torch::Tensor attend_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor table);",
    cuda_sources=SRC,
    functions=["attend_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, heads, furthest):
        super().__init__()
        self.distance_bias = nn.Parameter(torch.randn(heads, furthest + 1))

    def forward(self, q, k, v):
        return ext.attend_forward(q.contiguous(), k.contiguous(), v.contiguous(), self.distance_bias)
