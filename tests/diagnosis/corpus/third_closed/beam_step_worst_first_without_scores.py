# about = "The chosen continuations come with the worst first, and the scores so far are not added."
# section = "mismatch"
# problem = "beam_step"
# faults = [{causes = ["sort-order"], says = ["order|ascend|descend|revers|worst|smallest|first|sort"]}, {causes = ["base-ignored", "operator-missing", "residual-missing", "wrong-initial-state", "bias-missing"], says = ["score|added|base|before|operator|input|sum|initial|residual|missing|left out"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = """
#include <torch/extension.h>

__global__ void beam_kernel(const float* logits, const float* scores, const bool* finished, float* best, int64_t* beam, int64_t* token, int K, int V) {
    extern __shared__ float total[];
    int b = blockIdx.x, tid = threadIdx.x;
    if (tid < K) {
        const float* row = logits + (b * K + tid) * V;
        float m = row[0];
        for (int v = 1; v < V; v++) m = fmaxf(m, row[v]);
        float s = 0.0f;
        for (int v = 0; v < V; v++) s += expf(row[v] - m);
        float lse = m + logf(s);
        for (int v = 0; v < V; v++) {
            float gain = row[v] - lse;
            if (finished[b * K + tid]) gain = v == 0 ? 0.0f : -INFINITY;
            total[tid * V + v] = gain;
        }
    }
    __syncthreads();
    if (tid == 0) {
        for (int k = 0; k < K; k++) {
            int at = 0;
            for (int i = 1; i < K * V; i++)
                if (total[i] > total[at]) at = i;
            int out = b * K + K - 1 - k;
            best[out] = total[at];
            beam[out] = at / V;
            token[out] = at % V;
            total[at] = -INFINITY;
        }
    }
}

std::vector<torch::Tensor> beam_cuda(torch::Tensor logits, torch::Tensor scores, torch::Tensor finished) {
    int B = logits.size(0), K = logits.size(1), V = logits.size(2);
    auto best = torch::empty({B, K}, logits.options());
    auto beam = torch::empty({B, K}, logits.options().dtype(torch::kInt64));
    auto token = torch::empty({B, K}, logits.options().dtype(torch::kInt64));
    beam_kernel<<<B, 32, K * V * sizeof(float)>>>(logits.data_ptr<float>(), scores.data_ptr<float>(), finished.data_ptr<bool>(),
        best.data_ptr<float>(), beam.data_ptr<int64_t>(), token.data_ptr<int64_t>(), K, V);
    return {best, beam, token};
}
"""

beam_op = load_inline(
    name="beam_cuda",
    cpp_sources="std::vector<torch::Tensor> beam_cuda(torch::Tensor logits, torch::Tensor scores, torch::Tensor finished);",
    cuda_sources=cuda_src,
    functions=["beam_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, logits, scores, finished):
        best, beam, token = beam_op.beam_cuda(logits.contiguous(), scores.contiguous(), finished.contiguous())
        return best, beam, token
