# about = "The token that is returned counts through all beams and not from the start of its own."
# section = "mismatch"
# problem = "beam_step"
# causes = ["wrong-index-base", "operator-missing"]
# says = ["flat|base|beam|offset|count|modul|remainder|index|relative|start|operator"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// one block per sample: totals in shared memory, then the rank of each entry by counting
__global__ void step(const float* __restrict__ logits, const float* __restrict__ scores, const bool* __restrict__ finished,
                     float* __restrict__ best, int64_t* __restrict__ beam, int64_t* __restrict__ token, const int K, const int V) {
    extern __shared__ float total[];
    const int n = blockIdx.x, lane = threadIdx.x % 32;
    for (int k = threadIdx.x / 32; k < K; k += blockDim.x / 32) {
        const float* row = logits + ((size_t)n * K + k) * V;
        float top = -INFINITY, sum = 0.f;
        for (int v = lane; v < V; v += 32) {
            const float was = top;
            top = fmaxf(top, row[v]);
            sum = sum * expf(was - top) + expf(row[v] - top);
        }
        for (int o = 16; o > 0; o >>= 1) {
            const float t = __shfl_xor_sync(0xffffffffu, top, o), s = __shfl_xor_sync(0xffffffffu, sum, o), both = fmaxf(t, top);
            sum = sum * expf(top - both) + s * expf(t - both);
            top = both;
        }
        const float base = scores[n * K + k], lse = top + logf(sum);
        const bool done = finished[n * K + k];
        for (int v = lane; v < V; v += 32) total[k * V + v] = done ? (v ? -INFINITY : base) : base + (row[v] - lse);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < K * V; i += blockDim.x) {
        int rank = 0;
        for (int j = 0; j < K * V; ++j) rank += total[j] > total[i] || (total[j] == total[i] && j < i);
        if (rank < K) {
            best[n * K + rank] = total[i];
            beam[n * K + rank] = i / V;
            token[n * K + rank] = i;
        }
    }
}

std::vector<torch::Tensor> ranked(torch::Tensor logits, torch::Tensor scores, torch::Tensor finished) {
    const int B = logits.size(0), K = logits.size(1), V = logits.size(2);
    auto best = torch::empty({B, K}, logits.options());
    auto beam = torch::empty({B, K}, logits.options().dtype(torch::kLong)), token = torch::empty_like(beam);
    step<<<B, 128, K * V * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(logits.data_ptr<float>(), scores.data_ptr<float>(),
        finished.data_ptr<bool>(), best.data_ptr<float>(), beam.data_ptr<int64_t>(), token.data_ptr<int64_t>(), K, V);
    return {best, beam, token};
}
"""
ext = load_inline("beams_ranked", cpp_sources="std::vector<torch::Tensor> ranked(torch::Tensor logits, torch::Tensor scores, torch::Tensor finished);",
                  cuda_sources=SRC, functions=["ranked"])


class ModelNew(nn.Module):
    def forward(self, logits, scores, finished):
        return tuple(ext.ranked(logits.contiguous(), scores.contiguous(), finished.contiguous()))
