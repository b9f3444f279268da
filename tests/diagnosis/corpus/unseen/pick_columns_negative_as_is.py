# about = "Negative indices are not counted from the end: reads in front of the row, and of the tensor."
# section = "run"
# problem = "pick_columns"
# causes = ["global-out-of-bounds-read", "illegal-address"]
# says = ["out of bounds|out-of-bounds|before|past|outside|negative|in front|index|beyond"]
# stage = ["run", "verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="pick_columns",
    cpp_sources="torch::Tensor pick(torch::Tensor x, torch::Tensor index, torch::Tensor scale);",
    cuda_sources=r"""
#include <cuda_runtime.h>

__global__ void pick_kernel(const float* __restrict__ x, const int64_t* __restrict__ index,
                            const float* __restrict__ scale, float* __restrict__ y,
                            int rows, int columns, int picked) {
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (p >= picked || r >= rows) return;
    int64_t column = index[p];
    y[r * picked + p] = x[r * columns + column] * scale[p];
}

torch::Tensor pick(torch::Tensor x, torch::Tensor index, torch::Tensor scale) {
    TORCH_CHECK(x.dim() == 2, "x must have two dimensions");
    TORCH_CHECK(index.scalar_type() == torch::kInt64, "index must be int64");
    const int rows = x.size(0);
    const int columns = x.size(1);
    const int picked = index.size(0);
    auto y = torch::empty({rows, picked}, x.options());
    const dim3 block(16, 8);
    const dim3 grid((picked + block.x - 1) / block.x, (rows + block.y - 1) / block.y);
    pick_kernel<<<grid, block>>>(
        x.data_ptr<float>(),
        index.data_ptr<int64_t>(),
        scale.data_ptr<float>(),
        y.data_ptr<float>(),
        rows, columns, picked);
    return y;
}
""",
    functions=["pick"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, index, scale):
        return ext.pick(x.contiguous(), index.contiguous(), scale.contiguous())
