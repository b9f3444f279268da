# about = "Right: each node looks through all edges, sums first and scales once."
# section = "right"
# problem = "index_add_scaled"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void per_node(const float* base, const int64_t* index, const float* source, float* out, int edges, int width, float alpha) {
    int node = blockIdx.x;
    for (int j = threadIdx.x; j < width; j += blockDim.x) {
        float sum = 0.f;
        for (int e = 0; e < edges; ++e)
            if (index[e] == node) sum += source[e * width + j];
        out[node * width + j] = fmaf(alpha, sum, base[node * width + j]);
    }
}

torch::Tensor gather_edges(torch::Tensor base, torch::Tensor index, torch::Tensor source, double alpha) {
    auto out = torch::empty_like(base);
    per_node<<<base.size(0), 32>>>(base.data_ptr<float>(), index.data_ptr<int64_t>(), source.data_ptr<float>(), out.data_ptr<float>(),
                                   index.size(0), base.size(1), alpha);
    return out;
}
"""
ext = load_inline("gather_edges", cpp_sources="torch::Tensor gather_edges(torch::Tensor base, torch::Tensor index, torch::Tensor source, double alpha);", cuda_sources=SRC, functions=["gather_edges"])


class ModelNew(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    def forward(self, base, index, source):
        return ext.gather_edges(base.contiguous(), index.contiguous(), source.contiguous(), self.alpha)
