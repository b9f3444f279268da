# about = "The padding row is added to the sum; the divisor is right."
# section = "mismatch"
# problem = "bag_padding"
# causes = ["padding-ignored", "mask-ignored"]
# says = ["padd|row|mask|ignor"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void count_kernel(const int64_t* ids, int* counts, int rows, int length, int64_t padding) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    int n = 0;
    for (int t = 0; t < length; ++t) n += ids[r * length + t] != padding;
    counts[r] = n;
}

__global__ void mean_kernel(const int64_t* ids, const int* counts, const float* table, float* out, int length, int width) {
    extern __shared__ int64_t mine[];
    int r = blockIdx.x;
    for (int t = threadIdx.x; t < length; t += blockDim.x) mine[t] = ids[r * length + t];
    __syncthreads();
    int n = counts[r];
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        float sum = 0.f;
        for (int t = 0; t < length; ++t) sum += table[mine[t] * width + c];
        out[r * width + c] = n ? sum / n : 0.f;
    }
}

torch::Tensor mean_rows(torch::Tensor ids, torch::Tensor table, int64_t padding) {
    int rows = ids.size(0), length = ids.size(1), width = table.size(1);
    auto counts = torch::empty({rows}, ids.options().dtype(torch::kInt));
    auto out = torch::empty({rows, width}, table.options());
    count_kernel<<<1, 32>>>(ids.data_ptr<int64_t>(), counts.data_ptr<int>(), rows, length, padding);
    mean_kernel<<<rows, 32, length * sizeof(int64_t)>>>(ids.data_ptr<int64_t>(), counts.data_ptr<int>(),
        table.data_ptr<float>(), out.data_ptr<float>(), length, width);
    return out;
}
"""

m = load_inline(
    name="mean_rows",
    cpp_sources="torch::Tensor mean_rows(torch::Tensor ids, torch::Tensor table, int64_t padding);",
    cuda_sources=SOURCE,
    functions=["mean_rows"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width, padding):
        super().__init__()
        self.padding = padding
        self.table = nn.EmbeddingBag(vocabulary, width, mode="mean", padding_idx=padding)

    def forward(self, ids):
        return m.mean_rows(ids.contiguous(), self.table.weight, self.padding)
