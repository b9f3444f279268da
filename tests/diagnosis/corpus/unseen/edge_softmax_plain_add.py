# about = "The exponentials of a node's edges are added without an atomic: additions are lost."
# section = "run"
# problem = "edge_softmax"
# causes = ["scatter-overwrites", "global-race-between-blocks", "not-deterministic", "shared-race"]
# says = ["atomic|race|same|overwrit|lost|order|between|determin|another"]
# stage = ["run", "verify", "integrity"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

edge_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__device__ void atomic_max_float(float* address, float value) {
    int* as_int = reinterpret_cast<int*>(address);
    int old = *as_int;
    while (__int_as_float(old) < value) {
        int assumed = old;
        old = atomicCAS(as_int, assumed, __float_as_int(value));
        if (old == assumed) break;
    }
}

__global__ void node_max_kernel(const float* scores, const int64_t* target, float* top, int n, int heads) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomic_max_float(top + target[i / heads] * heads + i % heads, scores[i]);
}

__global__ void node_sum_kernel(const float* scores, const int64_t* target, const float* top, float* total,
                                float* out, int n, int heads) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int64_t slot = target[i / heads] * heads + i % heads;
        float e = expf(scores[i] - top[slot]);
        out[i] = e;
        total[slot] += e;
    }
}

__global__ void divide_kernel(const int64_t* target, const float* total, float* out, int n, int heads) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] /= total[target[i / heads] * heads + i % heads];
}

torch::Tensor edge_softmax(torch::Tensor scores, torch::Tensor target, int64_t nodes) {
    int n = scores.numel(), heads = scores.size(1);
    auto top = torch::full({nodes, heads}, -1e30f, scores.options());
    auto total = torch::zeros({nodes, heads}, scores.options());
    auto out = torch::empty_like(scores);
    int threads = 64, blocks = (n + threads - 1) / threads;
    node_max_kernel<<<blocks, threads>>>(scores.data_ptr<float>(), target.data_ptr<int64_t>(), top.data_ptr<float>(), n, heads);
    node_sum_kernel<<<blocks, threads>>>(scores.data_ptr<float>(), target.data_ptr<int64_t>(), top.data_ptr<float>(),
                                         total.data_ptr<float>(), out.data_ptr<float>(), n, heads);
    divide_kernel<<<blocks, threads>>>(target.data_ptr<int64_t>(), total.data_ptr<float>(), out.data_ptr<float>(), n, heads);
    return out;
}
"""

edge_ext = load_inline(
    name="edge_softmax_ext",
    cpp_sources="torch::Tensor edge_softmax(torch::Tensor scores, torch::Tensor target, int64_t nodes);",
    cuda_sources=edge_source,
    functions=["edge_softmax"],
)


class ModelNew(nn.Module):
    def __init__(self, nodes):
        super().__init__()
        self.nodes = nodes

    def forward(self, scores, target):
        return edge_ext.edge_softmax(scores.contiguous(), target.contiguous(), self.nodes)
