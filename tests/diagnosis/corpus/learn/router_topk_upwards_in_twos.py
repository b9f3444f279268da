# about = "The chosen stand in ascending order, and the softmax takes powers of two."
# section = "mismatch"
# problem = "router_topk"
# faults = [{causes = ["sort-order"], says = ["ascend|descend|revers|order"]}, {causes = ["base-2-for-e"], says = ["exp2|base|power.* of (two|2)|2\\^"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <vector>
#define K 5

__global__ void insert_kernel(const float* logits, float* weights, int64_t* ids, int tokens, int experts) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= tokens) return;
    float best[K];
    int who[K];
    for (int j = 0; j < K; ++j) { best[j] = -INFINITY; who[j] = 0; }
    for (int e = 0; e < experts; ++e) {
        float v = logits[t * experts + e];
        if (v <= best[0]) continue;
        int j = 0;
        while (j + 1 < K && v > best[j + 1]) {
            best[j] = best[j + 1];
            who[j] = who[j + 1];
            ++j;
        }
        best[j] = v;
        who[j] = e;
    }
    float sum = 0.f;
    for (int j = 0; j < K; ++j) sum += exp2f(best[j] - best[K - 1]);
    for (int j = 0; j < K; ++j) {
        weights[t * K + j] = exp2f(best[j] - best[K - 1]) / sum;
        ids[t * K + j] = who[j];
    }
}

std::vector<torch::Tensor> choose(torch::Tensor logits) {
    int tokens = logits.size(0);
    auto weights = torch::empty({tokens, K}, logits.options());
    auto ids = torch::empty({tokens, K}, torch::TensorOptions().dtype(torch::kInt64).device(logits.device()));
    insert_kernel<<<(tokens + 15) / 16, 16>>>(logits.data_ptr<float>(), weights.data_ptr<float>(), ids.data_ptr<int64_t>(), tokens, logits.size(1));
    return {weights, ids};
}
"""
ext = load_inline("choose", cpp_sources="std::vector<torch::Tensor> choose(torch::Tensor logits);", cuda_sources=SRC, functions=["choose"])


class ModelNew(nn.Module):
    def __init__(self, chosen):
        super().__init__()
        assert chosen == 5

    def forward(self, logits):
        weights, ids = ext.choose(logits.contiguous())
        return weights, ids
