# about = "Finished beams are continued as all others."
# section = "mismatch"
# problem = "beam_step"
# causes = ["mask-ignored", "operator-missing"]
# says = ["mask|finished|condition|where|operator|ignored"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

#define MAX_BEAMS 8

__global__ void lse_kernel(const float* logits, float* lse, int rows, int V) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float m = logits[r * V];
    for (int v = 1; v < V; ++v) m = fmaxf(m, logits[r * V + v]);
    float s = 0.f;
    for (int v = 0; v < V; ++v) s += expf(logits[r * V + v] - m);
    lse[r] = m + logf(s);
}

// a thread per sample keeps a sorted list by insertion
__global__ void insert_kernel(const float* logits, const float* scores, const float* lse, float* best, int64_t* beam, int64_t* token, int B, int K, int V) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= B) return;
    float value[MAX_BEAMS];
    int place[MAX_BEAMS];
    for (int k = 0; k < K; ++k) { value[k] = -INFINITY; place[k] = -1; }
    for (int i = 0; i < K * V; ++i) {
        int row = b * K + i / V;
        float v = scores[row] + logits[b * K * V + i] - lse[row];
        if (v <= value[K - 1]) continue;
        int k = K - 1;
        for (; k > 0 && v > value[k - 1]; --k) { value[k] = value[k - 1]; place[k] = place[k - 1]; }
        value[k] = v;
        place[k] = i;
    }
    for (int k = 0; k < K; ++k) {
        best[b * K + k] = value[k];
        beam[b * K + k] = place[k] / V;
        token[b * K + k] = place[k] % V;
    }
}

std::vector<torch::Tensor> extend(torch::Tensor logits, torch::Tensor scores, torch::Tensor finished) {
    int B = logits.size(0), K = logits.size(1), V = logits.size(2);
    TORCH_CHECK(K <= MAX_BEAMS, "too many beams");
    auto lse = torch::empty({B, K}, logits.options());
    auto best = torch::empty({B, K}, logits.options());
    auto beam = torch::empty({B, K}, logits.options().dtype(torch::kInt64));
    auto token = torch::empty({B, K}, logits.options().dtype(torch::kInt64));
    lse_kernel<<<1, 32>>>(logits.data_ptr<float>(), lse.data_ptr<float>(), B * K, V);
    insert_kernel<<<1, 32>>>(logits.data_ptr<float>(), scores.data_ptr<float>(), lse.data_ptr<float>(), best.data_ptr<float>(),
                             beam.data_ptr<int64_t>(), token.data_ptr<int64_t>(), B, K, V);
    return {best, beam, token};
}
"""

mod = load_inline(
    name="extend_beams",
    cpp_sources="std::vector<torch::Tensor> extend(torch::Tensor logits, torch::Tensor scores, torch::Tensor finished);",
    cuda_sources=source,
    functions=["extend"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, logits, scores, finished):
        return tuple(mod.extend(logits.contiguous(), scores.contiguous(), finished))
