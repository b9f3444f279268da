# about = "The softmax runs over all experts and its five largest are returned as they are."
# section = "mismatch"
# problem = "router_topk"
# causes = ["activation-order", "statistics-over-wrong-axes", "wrong-divisor", "softmax-wrong-axis"]
# says = ["softmax|all|divis|divid|sum|normal|order"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="route",
    cpp_sources="std::vector<torch::Tensor> route(torch::Tensor logits, int k);",
    cuda_sources=r"""
#include <vector>
__global__ void route_kernel(const float* logits, float* weights, int64_t* chosen, int tokens, int experts, int k) {
    int token = blockIdx.x * blockDim.x + threadIdx.x;
    if (token >= tokens) return;
    const float* row = logits + token * experts;
    float best = -INFINITY;
    for (int e = 0; e < experts; ++e) best = fmaxf(best, row[e]);
    float sum = 0.f;
    for (int e = 0; e < experts; ++e) sum += expf(row[e] - best);
    unsigned long long used = 0;
    for (int j = 0; j < k; ++j) {
        int at = -1;
        for (int e = 0; e < experts; ++e)
            if (!((used >> e) & 1) && (at < 0 || row[e] > row[at])) at = e;
        used |= 1ull << at;
        weights[token * k + j] = expf(row[at] - best) / sum;
        chosen[token * k + j] = at;
    }
}

std::vector<torch::Tensor> route(torch::Tensor logits, int k) {
    int tokens = logits.size(0);
    auto weights = torch::empty({tokens, k}, logits.options());
    auto chosen = torch::empty({tokens, k}, logits.options().dtype(torch::kInt64));
    route_kernel<<<(tokens + 31) / 32, 32>>>(logits.data_ptr<float>(), weights.data_ptr<float>(), chosen.data_ptr<int64_t>(),
                                             tokens, logits.size(1), k);
    return {weights, chosen};
}
""",
    functions=["route"],
)


class ModelNew(nn.Module):
    def __init__(self, chosen):
        super().__init__()
        self.chosen = chosen

    def forward(self, logits):
        weights, indices = ext.route(logits.contiguous(), self.chosen)
        return weights, indices
