import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

router_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <math_constants.h>

struct Best {
    float v;
    int i;
};

__device__ __forceinline__ bool ahead(float v, int i, float w, int j) { return v > w || (v == w && i < j); }

__device__ __forceinline__ Best warp_best(Best b) {
    #pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        float v = __shfl_xor_sync(0xffffffffu, b.v, o);
        int i = __shfl_xor_sync(0xffffffffu, b.i, o);
        if (ahead(v, i, b.v, b.i)) { b.v = v; b.i = i; }
    }
    return b;
}

// One warp routes one token. The softmax denominator cancels in the renormalisation, so only the
// two best logits matter: w1 = 1 / (1 + exp(l2 - l1)).
__global__ void route_top2(const float* __restrict__ logits, float* __restrict__ w, int64_t* __restrict__ idx,
                           int tokens, int experts) {
    const int token = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    const int lane = threadIdx.x & 31;
    if (token >= tokens) return;
    const float* l = logits + (size_t)token * experts;
    Best first;
    first.v = -CUDART_INF_F;
    first.i = 1 << 30;
    for (int e = lane; e < experts; e += 32)
        if (ahead(l[e], e, first.v, first.i)) { first.v = l[e]; first.i = e; }
    first = warp_best(first);
    Best second;
    second.v = -CUDART_INF_F;
    second.i = 1 << 30;
    for (int e = lane; e < experts; e += 32)
        if (e != first.i && ahead(l[e], e, second.v, second.i)) { second.v = l[e]; second.i = e; }
    second = warp_best(second);
    if (lane == 0) {
        const float t = expf(second.v - first.v);
        w[2 * (size_t)token] = 1.f / (1.f + t);
        w[2 * (size_t)token + 1] = t / (1.f + t);
        idx[2 * (size_t)token] = first.i;
        idx[2 * (size_t)token + 1] = second.i;
    }
}

std::vector<torch::Tensor> route(torch::Tensor logits) {
    TORCH_CHECK(logits.dim() == 2 && logits.size(1) >= 2, "(tokens, experts) with two experts or more");
    auto lc = logits.contiguous();
    const int tokens = lc.size(0), experts = lc.size(1);
    auto w = torch::empty({tokens, 2}, lc.options());
    auto idx = torch::empty({tokens, 2}, lc.options().dtype(torch::kLong));
    const int per_block = 8;
    route_top2<<<(tokens + per_block - 1) / per_block, per_block * 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        lc.data_ptr<float>(), w.data_ptr<float>(), idx.data_ptr<int64_t>(), tokens, experts);
    return {w, idx};
}
"""

router = load_inline(name="moe_router", cpp_sources="std::vector<torch::Tensor> route(torch::Tensor logits);",
                     cuda_sources=router_src, functions=["route"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, logits):
        w, idx = router.route(logits)
        return {"weights": w, "experts": idx}
