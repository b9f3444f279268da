# about = "The positions are not added."
# section = "mismatch"
# problem = "embedding_position"
# causes = ["operator-missing", "bias-missing"]
# says = ["position|add"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

emb_src = r"""
#include <torch/extension.h>

__global__ void embed_kernel(const int64_t* ids, const float* tokens, const float* positions, float* out,
                             int length, int width) {
    const int token = blockIdx.x;
    const int position = token % length;
    const int64_t row = ids[token];
    for (int d = threadIdx.x; d < width; d += blockDim.x) {
        out[token * width + d] = tokens[row * width + d];
    }
}

torch::Tensor embed(torch::Tensor ids, torch::Tensor tokens, torch::Tensor positions) {
    const int batch = ids.size(0);
    const int length = ids.size(1);
    const int width = tokens.size(1);
    auto out = torch::empty({batch, length, width}, tokens.options());
    embed_kernel<<<batch * length, 32>>>(ids.data_ptr<int64_t>(), tokens.data_ptr<float>(), positions.data_ptr<float>(),
                                         out.data_ptr<float>(), length, width);
    return out;
}
"""

emb = load_inline(
    name="embed_positions",
    cpp_sources="torch::Tensor embed(torch::Tensor ids, torch::Tensor tokens, torch::Tensor positions);",
    cuda_sources=emb_src,
    functions=["embed"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, length, width):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(length, width))

    def forward(self, ids):
        return emb.embed(ids.contiguous(), self.tokens.weight, self.positions)
