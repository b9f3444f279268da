# about = "A right answer: one maximum for each head instead of one for each node, and no atomics."
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

__global__ void top_kernel(const float* scores, float* top, int edges, int heads) {
    int h = blockIdx.x;
    float best = -INFINITY;
    for (int e = threadIdx.x; e < edges; e += 32) best = fmaxf(best, scores[e * heads + h]);
    for (int o = 16; o > 0; o /= 2) best = fmaxf(best, __shfl_xor_sync(0xffffffff, best, o));
    if (threadIdx.x == 0) top[h] = best;
}

// A warp for each node and head looks at all edges and writes those that are its own.
__global__ void share_kernel(const float* scores, const int64_t* target, const float* top, float* y, int edges,
                             int heads) {
    int node = blockIdx.x, h = blockIdx.y;
    float total = 0.f;
    for (int e = threadIdx.x; e < edges; e += 32)
        if (target[e] == node) total += expf(scores[e * heads + h] - top[h]);
    for (int o = 16; o > 0; o /= 2) total += __shfl_xor_sync(0xffffffff, total, o);
    for (int e = threadIdx.x; e < edges; e += 32)
        if (target[e] == node) y[e * heads + h] = expf(scores[e * heads + h] - top[h]) / total;
}

torch::Tensor softmax(torch::Tensor scores, torch::Tensor target, int64_t nodes) {
    int edges = scores.size(0), heads = scores.size(1);
    auto stream = at::cuda::getCurrentCUDAStream();
    auto top = torch::empty({heads}, scores.options());
    auto y = torch::empty_like(scores);
    top_kernel<<<heads, 32, 0, stream>>>(scores.data_ptr<float>(), top.data_ptr<float>(), edges, heads);
    share_kernel<<<dim3(nodes, heads), 32, 0, stream>>>(scores.data_ptr<float>(), target.data_ptr<int64_t>(),
        top.data_ptr<float>(), y.data_ptr<float>(), edges, heads);
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
