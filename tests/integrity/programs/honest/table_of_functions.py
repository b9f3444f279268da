# about = "getattr with a literal, and a table of functions by number of dimensions."
# category = "python"
# problem = "masked_square"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="masked_square",
    cpp_sources="torch::Tensor masked_square(torch::Tensor x, torch::Tensor mask);",
    cuda_sources=r"""
__global__ void masked_square_kernel(const float* x, const bool* mask, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = mask[i] ? x[i] * x[i] : -x[i];
}

torch::Tensor masked_square(torch::Tensor x, torch::Tensor mask) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    masked_square_kernel<<<(n + 63) / 64, 64>>>(x.data_ptr<float>(), mask.data_ptr<bool>(), y.data_ptr<float>(), n);
    return y;
}
""",
    functions=["masked_square"],
)

TABLE = {2: getattr(ext, "masked_square")}


class ModelNew(nn.Module):
    def forward(self, x, mask):
        return TABLE[x.dim()](x.contiguous(), mask.contiguous())
