# about = "Indices are taken for floats."
# category = "interface"
# problem = "embedding_scale"
# status = ["runtime_error"]
# finding = 'data-ptr-type'
# cuda.status = ["runtime_error"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="embedding_scale",
    cpp_sources="torch::Tensor embedding_scale(torch::Tensor ids, torch::Tensor table, double factor);",
    cuda_sources=r"""
__global__ void embedding_scale_kernel(const float* ids, const float* table, float* y, int n, int width, float factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = table[(int)ids[i / width] * width + i % width] * factor;
}

torch::Tensor embedding_scale(torch::Tensor ids, torch::Tensor table, double factor) {
    int width = table.size(1), n = ids.numel() * width;
    auto y = torch::empty({ids.size(0), ids.size(1), width}, table.options());
    embedding_scale_kernel<<<(n + 127) / 128, 128>>>(
        ids.data_ptr<float>(), table.data_ptr<float>(), y.data_ptr<float>(), n, width, factor);
    return y;
}
""",
    functions=["embedding_scale"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.factor = float(width) ** 0.5

    def forward(self, ids):
        return ext.embedding_scale(ids.contiguous(), self.table.weight, self.factor)
