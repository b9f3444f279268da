# about = "Positions are not moved by the padding's number: each one reads the row before its own."
# section = "mismatch"
# problem = "embedding_counted"
# causes = ["index-off-by-one", "index-ignored"]
# says = ["position|off|one|row|ind"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_code = r"""
#include <cstdint>

__global__ void places_kernel(const int64_t* ids, int* places, int batch, int length, int64_t padding) {
    int b = threadIdx.x + blockIdx.x * blockDim.x;
    if (b >= batch) return;
    int seen = 0;
    for (int t = 0; t < length; ++t) {
        bool kept = ids[b * length + t] != padding;
        seen += kept;
        places[b * length + t] = kept ? seen : 0;
    }
}

__global__ void sum_kernel(const int64_t* ids, const int* places, const int64_t* segments, const float* a, const float* p,
                           const float* s, float* out, int n, int width) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        int t = i / width, c = i - t * width;
        float v = a[ids[t] * width + c];
        v += p[places[t] * width + c];
        v += s[segments[t] * width + c];
        out[i] = v;
    }
}

torch::Tensor embeddings(torch::Tensor ids, torch::Tensor segments, torch::Tensor a, torch::Tensor p, torch::Tensor s, int64_t padding) {
    auto places = torch::empty(ids.sizes(), ids.options().dtype(torch::kInt32));
    auto out = torch::empty({ids.size(0), ids.size(1), a.size(1)}, a.options());
    places_kernel<<<1, 32>>>(ids.data_ptr<int64_t>(), places.data_ptr<int>(), ids.size(0), ids.size(1), padding);
    sum_kernel<<<6, 128>>>(ids.data_ptr<int64_t>(), places.data_ptr<int>(), segments.data_ptr<int64_t>(), a.data_ptr<float>(),
        p.data_ptr<float>(), s.data_ptr<float>(), out.data_ptr<float>(), out.numel(), a.size(1));
    return out;
}
"""

ops = load_inline(
    name="embeddings",
    cpp_sources="torch::Tensor embeddings(torch::Tensor ids, torch::Tensor segments, torch::Tensor a, torch::Tensor p, torch::Tensor s, int64_t padding);",
    cuda_sources=cuda_code,
    functions=["embeddings"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, length, width, padding):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length + padding + 1, width)
        self.segments = nn.Embedding(2, width)
        self.padding = padding

    def forward(self, ids, segments):
        weights = [self.tokens.weight, self.positions.weight, self.segments.weight]
        return ops.embeddings(ids.contiguous(), segments.contiguous(), *weights, self.padding)
