# about = "The logarithm of the sum leaves out the maximum that was subtracted below it."
# section = "mismatch"
# problem = "beam_step"
# causes = ["max-not-added-back", "constant-added", "operator-missing"]
# says = ["max|log-sum|lse|logsumexp|subtract|added back|denominator|normali"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#include <cfloat>

__global__ void gain_kernel(const float* logits, const float* scores, const bool* finished, float* total, int rows, int V) {
    int row = blockIdx.x, lane = threadIdx.x;
    const float* x = logits + row * V;
    float m = -FLT_MAX;
    for (int v = lane; v < V; v += 32) m = fmaxf(m, x[v]);
    for (int o = 16; o > 0; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
    float s = 0.0f;
    for (int v = lane; v < V; v += 32) s += expf(x[v] - m);
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
    float lse = logf(s);
    for (int v = lane; v < V; v += 32) {
        float gain = x[v] - lse;
        if (finished[row]) gain = v == 0 ? 0.0f : -INFINITY;
        total[row * V + v] = scores[row] + gain;
    }
}

__global__ void topk_kernel(float* total, float* best, int64_t* beam, int64_t* token, int K, int V) {
    __shared__ float value[128];
    __shared__ int place[128];
    float* t = total + blockIdx.x * K * V;
    for (int k = 0; k < K; k++) {
        float m = -INFINITY;
        int at = 0;
        for (int i = threadIdx.x; i < K * V; i += blockDim.x)
            if (t[i] > m) { m = t[i]; at = i; }
        value[threadIdx.x] = m;
        place[threadIdx.x] = at;
        __syncthreads();
        for (int s = 64; s > 0; s >>= 1) {
            if (threadIdx.x < s && value[threadIdx.x + s] > value[threadIdx.x]) {
                value[threadIdx.x] = value[threadIdx.x + s];
                place[threadIdx.x] = place[threadIdx.x + s];
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            best[blockIdx.x * K + k] = value[0];
            beam[blockIdx.x * K + k] = place[0] / V;
            token[blockIdx.x * K + k] = place[0] % V;
            t[place[0]] = -INFINITY;
        }
        __syncthreads();
    }
}

std::vector<torch::Tensor> beam_step(torch::Tensor logits, torch::Tensor scores, torch::Tensor finished) {
    int B = logits.size(0), K = logits.size(1), V = logits.size(2);
    auto total = torch::empty_like(logits);
    auto best = torch::empty({B, K}, logits.options());
    auto beam = torch::empty({B, K}, logits.options().dtype(torch::kInt64));
    auto token = torch::empty({B, K}, logits.options().dtype(torch::kInt64));
    gain_kernel<<<B * K, 32>>>(logits.data_ptr<float>(), scores.data_ptr<float>(), finished.data_ptr<bool>(), total.data_ptr<float>(), B * K, V);
    topk_kernel<<<B, 128>>>(total.data_ptr<float>(), best.data_ptr<float>(), beam.data_ptr<int64_t>(), token.data_ptr<int64_t>(), K, V);
    return {best, beam, token};
}
"""

beam = load_inline(
    name="beam_step",
    cpp_sources="std::vector<torch::Tensor> beam_step(torch::Tensor logits, torch::Tensor scores, torch::Tensor finished);",
    cuda_sources=cuda_source,
    functions=["beam_step"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, logits, scores, finished):
        best, where, token = beam.beam_step(logits.contiguous(), scores.contiguous(), finished.contiguous())
        return best, where, token
