# about = "Positions count the padding as well: every token has its place in the row."
# section = "mismatch"
# problem = "embedding_counted"
# causes = ["padding-ignored", "mask-ignored", "index-ignored"]
# says = ["position|padd|count|cumsum|ind|place"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

embed_cuda = r"""
__global__ void embed_kernel(const int64_t* ids, const int64_t* seg, const float* tok_w, const float* pos_w,
                             const float* seg_w, float* out, int length, int dim, int pad) {
    int token = blockIdx.x;
    int s = token % length;
    int64_t id = ids[token];
    int64_t pos = id != pad ? s + 1 + pad : pad;
    int64_t sg = seg[token];
    for (int d = threadIdx.x; d < dim; d += blockDim.x) {
        out[token * dim + d] = tok_w[id * dim + d] + pos_w[pos * dim + d] + seg_w[sg * dim + d];
    }
}

torch::Tensor embed(torch::Tensor ids, torch::Tensor seg, torch::Tensor tok_w, torch::Tensor pos_w, torch::Tensor seg_w, int64_t pad) {
    int B = ids.size(0), L = ids.size(1), D = tok_w.size(1);
    auto out = torch::empty({B, L, D}, tok_w.options());
    embed_kernel<<<B * L, 32>>>(ids.data_ptr<int64_t>(), seg.data_ptr<int64_t>(), tok_w.data_ptr<float>(),
                                pos_w.data_ptr<float>(), seg_w.data_ptr<float>(), out.data_ptr<float>(), L, D, (int)pad);
    return out;
}
"""

embed = load_inline(
    name="embed",
    cpp_sources="torch::Tensor embed(torch::Tensor ids, torch::Tensor seg, torch::Tensor tok_w, torch::Tensor pos_w, torch::Tensor seg_w, int64_t pad);",
    cuda_sources=embed_cuda,
    functions=["embed"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, length, width, padding):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length + padding + 1, width)
        self.segments = nn.Embedding(2, width)
        self.padding = padding

    def forward(self, ids, segments):
        return embed.embed(ids.contiguous(), segments.contiguous(), self.tokens.weight, self.positions.weight,
                           self.segments.weight, self.padding)
