# about = "The count of tokens is exclusive, and the segment rows are not added."
# section = "mismatch"
# problem = "embedding_counted"
# faults = [{causes = ["scan-exclusive", "scan-off-by-one", "index-off-by-one"], says = ["exclusive|off by|one|position|row"]}, {causes = ["operator-missing", "bias-missing"], says = ["segment|add|left out|missing|not"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void fused_embedding(const int64_t* __restrict__ ids, const float* __restrict__ tok, const float* __restrict__ pos,
                                float* __restrict__ out, int length, int width, int64_t pad) {
    __shared__ int seen;
    const int b = blockIdx.y, t = blockIdx.x;
    const int64_t id = ids[b * length + t];
    if (threadIdx.x == 0) {
        int n = 0;
        for (int u = 0; u < t; ++u) n += ids[b * length + u] != pad ? 1 : 0;
        seen = id != pad ? n : 0;
    }
    __syncthreads();
    const int64_t place = seen + pad;
    float* dst = out + (b * length + t) * width;
    for (int c = threadIdx.x * 4; c < width; c += blockDim.x * 4) {
        const float4 x = *reinterpret_cast<const float4*>(tok + id * width + c);
        const float4 y = *reinterpret_cast<const float4*>(pos + place * width + c);
        *reinterpret_cast<float4*>(dst + c) = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    }
}

torch::Tensor fused(torch::Tensor ids, torch::Tensor tok, torch::Tensor pos, int64_t pad) {
    const int B = ids.size(0), L = ids.size(1), W = tok.size(1);
    TORCH_CHECK(W % 4 == 0, "width must be a multiple of 4");
    auto out = torch::empty({B, L, W}, tok.options());
    fused_embedding<<<dim3(L, B), 32>>>(ids.data_ptr<int64_t>(), tok.data_ptr<float>(), pos.data_ptr<float>(),
                                      out.data_ptr<float>(), L, W, pad);
    return out;
}
"""

fused = load_inline(name="fused_embedding", cpp_sources="torch::Tensor fused(torch::Tensor ids, torch::Tensor tok, torch::Tensor pos, int64_t pad);",
                    cuda_sources=source, functions=["fused"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, length, width, padding):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length + padding + 1, width)
        self.segments = nn.Embedding(2, width)
        self.padding = padding

    def forward(self, ids, segments):
        return fused.fused(ids.contiguous(), self.tokens.weight, self.positions.weight, self.padding)
