# about = "Position 0 for all."
# section = "mismatch"
# problem = "embedding_position"
# causes = ["bias-wrong-index", "keepdim-broadcast", "index-ignored"]
# says = ["position|first"]
# stage = ["verify"]

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="embedding",
    cpp_sources="torch::Tensor embed(torch::Tensor ids, torch::Tensor table, torch::Tensor positions);",
    cuda_sources=r"""
__global__ void embed_kernel(const int64_t* ids, const float* table, const float* positions, float* y, int n, int length,
                             int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int token = i / width, column = i % width;
    y[i] = table[ids[token] * width + column] + positions[column];
}

torch::Tensor embed(torch::Tensor ids, torch::Tensor table, torch::Tensor positions) {
    int width = table.size(1), length = positions.size(0);
    auto y = torch::empty({ids.size(0), ids.size(1), width}, table.options());
    int n = y.numel();
    embed_kernel<<<(n + 127) / 128, 128>>>(ids.data_ptr<int64_t>(), table.data_ptr<float>(), positions.data_ptr<float>(),
        y.data_ptr<float>(), n, length, width);
    return y;
}
""",
    functions=["embed"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, length, width):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(length, width))

    def forward(self, ids):
        return ext.embed(ids.contiguous(), self.tokens.weight, self.positions)
