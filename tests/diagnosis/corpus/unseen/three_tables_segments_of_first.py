# about = "Every sample takes the segments of the first sample: the batch is left out of their index."
# section = "mismatch"
# problem = "embedding_three_tables"
# causes = ["first-batch-only", "index-ignored", "keepdim-broadcast", "wrong-axis", "layout-misread"]
# says = ["batch|sample|segment|first|row|stride|index"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

embed_cuda = r"""
#include <torch/extension.h>

__global__ void embed_norm_kernel(const int64_t* __restrict__ ids, const int64_t* __restrict__ segment,
                                  const float* __restrict__ token_table, const float* __restrict__ segment_table,
                                  const float* __restrict__ position_table, const float* __restrict__ gamma,
                                  const float* __restrict__ beta, float* __restrict__ out,
                                  int length, int width, float eps) {
    __shared__ float s_sum[32];
    __shared__ float s_sq[32];
    const int pos = blockIdx.x;
    const int b = blockIdx.y;
    const int tid = threadIdx.x;
    const int64_t id = ids[b * length + pos];
    const int64_t seg = segment[pos];

    float x = 0.0f;
    if (tid < width)
        x = token_table[id * width + tid] + segment_table[seg * width + tid] + position_table[pos * width + tid];
    s_sum[tid] = x;
    __syncthreads();
    for (int stride = 16; stride > 0; stride /= 2) {
        if (tid < stride) s_sum[tid] += s_sum[tid + stride];
        __syncthreads();
    }
    const float mean = s_sum[0] / width;
    const float d = tid < width ? x - mean : 0.0f;
    s_sq[tid] = d * d;
    __syncthreads();
    for (int stride = 16; stride > 0; stride /= 2) {
        if (tid < stride) s_sq[tid] += s_sq[tid + stride];
        __syncthreads();
    }
    const float inv = rsqrtf(s_sq[0] / width + eps);
    if (tid < width) out[(b * length + pos) * width + tid] = d * inv * gamma[tid] + beta[tid];
}

torch::Tensor embed_norm(torch::Tensor ids, torch::Tensor segment, torch::Tensor token_table,
                         torch::Tensor segment_table, torch::Tensor position_table, torch::Tensor gamma,
                         torch::Tensor beta, double eps) {
    const int batch = ids.size(0), length = ids.size(1), width = token_table.size(1);
    TORCH_CHECK(width <= 32, "width");
    auto out = torch::empty({batch, length, width}, token_table.options());
    dim3 grid(length, batch);
    embed_norm_kernel<<<grid, 32>>>(ids.data_ptr<int64_t>(), segment.data_ptr<int64_t>(),
        token_table.data_ptr<float>(), segment_table.data_ptr<float>(), position_table.data_ptr<float>(),
        gamma.data_ptr<float>(), beta.data_ptr<float>(), out.data_ptr<float>(), length, width, (float)eps);
    return out;
}
"""

embed_cpp = """
torch::Tensor embed_norm(torch::Tensor ids, torch::Tensor segment, torch::Tensor token_table,
                         torch::Tensor segment_table, torch::Tensor position_table, torch::Tensor gamma,
                         torch::Tensor beta, double eps);
"""

embed = load_inline(name="embed_norm", cpp_sources=embed_cpp, cuda_sources=embed_cuda, functions=["embed_norm"])


class ModelNew(nn.Module):
    def __init__(self, vocabulary, segments, length, width):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.segment = nn.Embedding(segments, width)
        self.position = nn.Embedding(length + 2, width)
        self.norm = nn.LayerNorm(width, eps=1e-5)

    def forward(self, ids, segment):
        return embed.embed_norm(ids.contiguous(), segment.contiguous(), self.token.weight, self.segment.weight,
                                self.position.weight, self.norm.weight, self.norm.bias, self.norm.eps)
