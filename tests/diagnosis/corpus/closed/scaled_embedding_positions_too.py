# about = "The position rows are scaled as well."
# section = "mismatch"
# problem = "embedding_scaled"
# causes = ["activation-order", "scale-doubled", "weight-wrong-place"]
# says = ["scal|order|position|factor|root|sqrt"]
# stage = ["verify"]

import math

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
__global__ void token_position_kernel(const int64_t* ids, const float* tok, const float* pos, float* y,
                                      int count, int length, int width, int first, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int c = i % width, t = i / width;
    float value = tok[ids[t] * width + c] + pos[(t % length + first) * width + c];
    y[i] = value * scale;
}

torch::Tensor token_position(torch::Tensor ids, torch::Tensor tok, torch::Tensor pos, int64_t first, double scale) {
    int width = tok.size(1);
    auto y = torch::empty({ids.size(0), ids.size(1), width}, tok.options());
    int count = y.numel();
    token_position_kernel<<<(count + 127) / 128, 128>>>(ids.data_ptr<int64_t>(), tok.data_ptr<float>(), pos.data_ptr<float>(),
        y.data_ptr<float>(), count, ids.size(1), width, (int)first, (float)scale);
    return y;
}
"""

ext = load_inline(
    name="token_position",
    cpp_sources="torch::Tensor token_position(torch::Tensor ids, torch::Tensor tok, torch::Tensor pos, int64_t first, double scale);",
    cuda_sources=cuda_src,
    functions=["token_position"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, length, width, first):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length + first, width)
        self.first = first
        self.scale = math.sqrt(width)

    def forward(self, ids):
        return ext.token_position(ids.contiguous(), self.tokens.weight, self.positions.weight, self.first, self.scale)
