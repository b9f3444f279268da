# about = "Rows are scaled by the width, not by its root, and vectors of four leave the last two columns at zero."
# section = "mismatch"
# problem = "embedding_scaled"
# faults = [{causes = ["root-omitted", "wrong-divisor", "scale-doubled"], says = ["root|sqrt|scal|factor|width"]}, {causes = ["lost-last-block", "unwritten-output", "last-element-left-out"], says = ["written|last|vector|tail|wrote|zero|computed"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA_SRC = r"""
__global__ void embed_vectors(const int64_t* ids, const float* tokens, const float* positions, float* out,
                              int rows, int length, int width, int first) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const int64_t id = ids[row];
    const float factor = static_cast<float>(width);
    const float* a = tokens + id * width;
    const float* b = positions + (row % length + first) * width;
    float* y = out + row * width;
    const int vectors = width / 4;
    for (int v = threadIdx.x; v < vectors; v += blockDim.x) {
        #pragma unroll
        for (int e = 0; e < 4; ++e) y[v * 4 + e] = a[v * 4 + e] * factor + b[v * 4 + e];
    }
}

torch::Tensor embed(torch::Tensor ids, torch::Tensor tokens, torch::Tensor positions, int64_t first) {
    const int rows = ids.numel(), width = tokens.size(1);
    auto out = torch::zeros({ids.size(0), ids.size(1), width}, tokens.options());
    embed_vectors<<<(rows + 7) / 8, dim3(8, 8)>>>(ids.data_ptr<int64_t>(), tokens.data_ptr<float>(),
        positions.data_ptr<float>(), out.data_ptr<float>(), rows, ids.size(1), width, first);
    return out;
}
"""

embed_ext = load_inline(
    name="embed_vectors",
    cpp_sources="torch::Tensor embed(torch::Tensor ids, torch::Tensor tokens, torch::Tensor positions, int64_t first);",
    cuda_sources=CUDA_SRC,
    functions=["embed"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, length, width, first):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length + first, width)
        self.first = first

    def forward(self, ids):
        return embed_ext.embed(ids.contiguous(), self.tokens.weight, self.positions.weight, self.first)
