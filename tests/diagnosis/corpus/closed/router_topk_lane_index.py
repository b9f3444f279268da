# about = "The index of an expert is the round of its lane, not the number of the expert."
# section = "mismatch"
# problem = "router_topk"
# causes = ["wrong-index-base"]
# says = ["ind"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <vector>
#define FULL 0xffffffffu
#define MAXK 8

__global__ void topk_softmax(const float* __restrict__ logits, float* __restrict__ w, int64_t* __restrict__ idx, int experts, int k) {
    int row = blockIdx.x, lane = threadIdx.x;
    float v[4];
    for (int r = 0; r < 4; ++r) {
        int e = r * 32 + lane;
        v[r] = e < experts ? logits[row * experts + e] : -INFINITY;
    }
    float top[MAXK];
    for (int j = 0; j < k; ++j) {
        float best = v[0];
        int round = 0;
        for (int r = 1; r < 4; ++r) if (v[r] > best) { best = v[r]; round = r; }
        float m = best;
        int who = lane;
        for (int o = 16; o > 0; o >>= 1) {
            float om = __shfl_xor_sync(FULL, m, o);
            int ow = __shfl_xor_sync(FULL, who, o);
            if (om > m || (om == m && ow < who)) { m = om; who = ow; }
        }
        top[j] = m;
        if (who == lane) {
            for (int r = 0; r < 4; ++r) if (r == round) v[r] = -INFINITY;
            idx[row * k + j] = round;
        }
    }
    if (lane == 0) {
        float s = 0.f;
        for (int j = 0; j < k; ++j) s += expf(top[j] - top[0]);
        for (int j = 0; j < k; ++j) w[row * k + j] = expf(top[j] - top[0]) / s;
    }
}

std::vector<torch::Tensor> topk(torch::Tensor logits, int64_t k) {
    auto w = torch::empty({logits.size(0), k}, logits.options());
    auto idx = torch::empty({logits.size(0), k}, logits.options().dtype(torch::kInt64));
    topk_softmax<<<logits.size(0), 32>>>(logits.data_ptr<float>(), w.data_ptr<float>(), idx.data_ptr<int64_t>(), logits.size(1), (int)k);
    return {w, idx};
}
"""
topk_ext = load_inline(name="topk_softmax", cpp_sources="#include <vector>\nstd::vector<torch::Tensor> topk(torch::Tensor logits, int64_t k);", cuda_sources=cuda_source, functions=["topk"])


class ModelNew(nn.Module):
    def __init__(self, chosen):
        super().__init__()
        self.k = chosen

    def forward(self, logits):
        w, idx = topk_ext.topk(logits.contiguous(), self.k)
        return w, idx
