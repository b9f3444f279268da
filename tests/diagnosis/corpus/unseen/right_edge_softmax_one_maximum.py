# about = "A right answer: one online pass for maximum and sum by a warp for each node, and no atomics."
# section = "right"
# problem = "edge_softmax"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="edge_softmax_by_node",
    cpp_sources="torch::Tensor softmax(torch::Tensor scores, torch::Tensor target, int64_t nodes);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

// A warp for each node and head looks at all edges and writes those that are its own.
__global__ void share_kernel(const float* scores, const int64_t* target, float* y, int edges, int heads) {
    int node = blockIdx.x, h = blockIdx.y;
    float top = -INFINITY, total = 0.f;
    for (int e = threadIdx.x; e < edges; e += 32) {
        if (target[e] != node) continue;
        float s = scores[e * heads + h], next = fmaxf(top, s);
        total = total * expf(top - next) + expf(s - next);
        top = next;
    }
    float best = top;
    for (int o = 16; o > 0; o /= 2) best = fmaxf(best, __shfl_xor_sync(0xffffffff, best, o));
    total = top == -INFINITY ? 0.f : total * expf(top - best);
    for (int o = 16; o > 0; o /= 2) total += __shfl_xor_sync(0xffffffff, total, o);
    float logarithm = logf(total);
    for (int e = threadIdx.x; e < edges; e += 32)
        if (target[e] == node) y[e * heads + h] = expf(scores[e * heads + h] - best - logarithm);
}

torch::Tensor softmax(torch::Tensor scores, torch::Tensor target, int64_t nodes) {
    int edges = scores.size(0), heads = scores.size(1);
    auto y = torch::empty_like(scores);
    share_kernel<<<dim3(nodes, heads), 32, 0, at::cuda::getCurrentCUDAStream()>>>(scores.data_ptr<float>(),
        target.data_ptr<int64_t>(), y.data_ptr<float>(), edges, heads);
    return y;
}
""",
    functions=["softmax"],
)


class ModelNew(nn.Module):
    def __init__(self, nodes):
        super().__init__()
        self.nodes = nodes

    def forward(self, scores, target):
        return ext.softmax(scores.contiguous(), target.contiguous(), self.nodes)
