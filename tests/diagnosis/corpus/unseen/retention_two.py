# about = "Each output reads the state before the step's own key and value, and the state keeps one less the rate."
# section = "mismatch"
# problem = "retention_steps"
# faults = [{causes = ["state-order", "scan-exclusive", "scan-off-by-one"], says = ["before|after|order|exclusive|itself|own|shift|update"]}, {causes = ["wrong-decay"], says = ["decay|rate|complement|1 - |factor"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ret_source = r"""
#include <torch/extension.h>
#include <vector>

// a block per (sample, head), a thread per value channel; each thread holds its column of the state
__global__ void retention_kernel(const float* q, const float* k, const float* v, const float* rate,
                                 const float* state_in, float* y, float* state_out, int heads, int steps, int keys,
                                 int values) {
    int bh = blockIdx.x;
    int j = threadIdx.x;
    if (j >= values) return;
    float keep = 1.0f - rate[bh % heads];
    float column[32];
    for (int i = 0; i < keys; i++) column[i] = state_in[(bh * keys + i) * values + j];
    for (int t = 0; t < steps; t++) {
        const float* qt = q + (bh * steps + t) * keys;
        const float* kt = k + (bh * steps + t) * keys;
        float vt = v[(bh * steps + t) * values + j];
        float acc = 0.0f;
        for (int i = 0; i < keys; i++) {
            acc += qt[i] * column[i];
            column[i] = keep * column[i] + kt[i] * vt;
        }
        y[(bh * steps + t) * values + j] = acc;
    }
    for (int i = 0; i < keys; i++) state_out[(bh * keys + i) * values + j] = column[i];
}

std::vector<torch::Tensor> retention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor rate,
                                     torch::Tensor state) {
    int batch = q.size(0), heads = q.size(1), steps = q.size(2), keys = q.size(3), values = v.size(3);
    TORCH_CHECK(keys <= 32, "at most 32 keys");
    auto y = torch::empty({batch, heads, steps, values}, q.options());
    auto after = torch::empty_like(state);
    retention_kernel<<<batch * heads, 32>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
        rate.data_ptr<float>(), state.data_ptr<float>(), y.data_ptr<float>(), after.data_ptr<float>(), heads, steps,
        keys, values);
    return {y, after};
}
"""

retention = load_inline(
    name="retention",
    cpp_sources="std::vector<torch::Tensor> retention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor rate, torch::Tensor state);",
    cuda_sources=ret_source,
    functions=["retention"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, q, k, v, rate, state):
        y, after = retention.retention(
            q.contiguous(), k.contiguous(), v.contiguous(), rate.contiguous(), state.contiguous()
        )
        return y, after
