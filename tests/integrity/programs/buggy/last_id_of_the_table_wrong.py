# about = "The last row of the table is read as the one before."
# category = "values"
# group = "numerics"
# problem = "embedding_scale"
# status = ["incorrect"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="look_up",
    cpp_sources="torch::Tensor look_up(torch::Tensor ids, torch::Tensor table);",
    cuda_sources=r"""
__global__ void look_up_kernel(const long* ids, const float* table, float* y, int n, int width, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int id = min(static_cast<int>(ids[i / width]), rows - 2);
    y[i] = table[id * width + i % width] * sqrtf(width);
}

torch::Tensor look_up(torch::Tensor ids, torch::Tensor table) {
    auto y = torch::empty({ids.size(0), ids.size(1), table.size(1)}, table.options());
    int n = y.numel();
    look_up_kernel<<<(n + 127) / 128, 128>>>(ids.data_ptr<long>(), table.data_ptr<float>(), y.data_ptr<float>(), n,
                                             table.size(1), table.size(0));
    return y;
}
""",
    functions=["look_up"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)

    def forward(self, ids):
        return ext.look_up(ids.contiguous(), self.table.weight)
