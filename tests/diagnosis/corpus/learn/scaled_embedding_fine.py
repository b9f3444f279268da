# about = "A right answer: one warp per token, products fused."
# section = "right"
# problem = "embedding_scaled"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = """
__global__ void warp_embedding(const int64_t* ids, const float* tokens, const float* positions, float* y,
                               int rows, int length, int width, int first) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
    if (row >= rows) return;
    float factor = sqrtf((float)width);
    const float* token = tokens + ids[row] * width;
    const float* place = positions + (row % length + first) * width;
    for (int c = threadIdx.x % warpSize; c < width; c += warpSize)
        y[row * width + c] = fmaf(token[c], factor, place[c]);
}

torch::Tensor warp_embed(torch::Tensor ids, torch::Tensor tokens, torch::Tensor positions, int64_t first) {
    int rows = ids.numel();
    auto y = torch::empty({ids.size(0), ids.size(1), tokens.size(1)}, tokens.options());
    warp_embedding<<<(rows + 3) / 4, 128>>>(ids.data_ptr<int64_t>(), tokens.data_ptr<float>(), positions.data_ptr<float>(),
        y.data_ptr<float>(), rows, ids.size(1), tokens.size(1), first);
    return y;
}
"""

warp_embedding = load_inline(
    name="warp_embedding",
    cpp_sources="torch::Tensor warp_embed(torch::Tensor ids, torch::Tensor tokens, torch::Tensor positions, int64_t first);",
    cuda_sources=source,
    functions=["warp_embed"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, length, width, first):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length + first, width)
        self.first = first

    def forward(self, ids):
        return warp_embedding.warp_embed(ids.contiguous(), self.tokens.weight, self.positions.weight, self.first)
