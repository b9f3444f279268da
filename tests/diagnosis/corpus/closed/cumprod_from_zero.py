# about = "The running product begins with zero."
# section = "mismatch"
# problem = "cumprod_rows"
# causes = ["reduction-start-value", "wrong-initial-state", "constant-output"]
# says = ["start|init|begin|zero|identity| 0"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cumprod_cuda = r"""
__global__ void cumprod_kernel(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    for (; row < rows; row += gridDim.x * blockDim.x) {
        float acc = 0.0f;
        for (int c = 0; c < cols; ++c) {
            acc *= x[row * cols + c];
            y[row * cols + c] = acc;
        }
    }
}

torch::Tensor cumprod_rows(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int rows = x.size(0), cols = x.size(1);
    cumprod_kernel<<<(rows + 31) / 32, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}
"""

cumprod_ext = load_inline(
    name="cumprod_ext",
    cpp_sources="torch::Tensor cumprod_rows(torch::Tensor x);",
    cuda_sources=cumprod_cuda,
    functions=["cumprod_rows"],
)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        assert self.dim in (1, -1) and x.dim() == 2
        return cumprod_ext.cumprod_rows(x.contiguous())
