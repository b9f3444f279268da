# about = "Padding is left out of the sum, but counts in the divisor."
# section = "mismatch"
# problem = "bag_padding"
# causes = ["wrong-divisor", "padding-ignored"]
# says = ["divi|count|padd|length"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
__global__ void padded_bag(const int64_t* __restrict__ ids, const float* __restrict__ weight, float* __restrict__ out,
                           int rows, int length, int dim, int64_t pad) {
    int lane = threadIdx.x & 31;
    int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (row >= rows) return;
    const int64_t* mine = ids + row * length;
    const float inv = 1.0f / length;
    for (int d = lane; d < dim; d += 32) {
        float acc = 0.0f;
        for (int t = 0; t < length; ++t) {
            int64_t id = mine[t];
            if (id == pad) continue;
            acc += weight[id * dim + d];
        }
        out[row * dim + d] = acc * inv;
    }
}

torch::Tensor padded_bag_forward(torch::Tensor ids, torch::Tensor weight, int64_t pad) {
    int rows = ids.size(0), dim = weight.size(1);
    auto out = torch::empty({rows, dim}, weight.options());
    padded_bag<<<(rows + 3) / 4, 128>>>(ids.data_ptr<int64_t>(), weight.data_ptr<float>(), out.data_ptr<float>(),
                                      rows, ids.size(1), dim, pad);
    return out;
}
"""

padded_bag = load_inline(
    name="padded_bag",
    cpp_sources="torch::Tensor padded_bag_forward(torch::Tensor ids, torch::Tensor weight, int64_t pad);",
    cuda_sources=cuda_source,
    functions=["padded_bag_forward"],
    extra_cuda_cflags=["-O3", "--use_fast_math"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width, padding):
        super().__init__()
        self.table = nn.EmbeddingBag(vocabulary, width, mode="mean", padding_idx=padding)
        self.padding = padding

    def forward(self, ids):
        return padded_bag.padded_bag_forward(ids.contiguous(), self.table.weight, self.padding)
