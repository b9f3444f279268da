# about = "A launch passes 40 KB by value, which no GPU takes."
# category = "build"
# group = "launch"
# problem = "row_max"
# status = ["build_error", "runtime_error"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_max",
    cpp_sources="torch::Tensor row_max(torch::Tensor x);",
    cuda_sources=r"""
struct Table { float at[10240]; };

__global__ void max_kernel(const float* x, float* y, int rows, int columns, Table table) {
    int row = threadIdx.x;
    if (row >= rows) return;
    float top = -INFINITY;
    for (int i = 0; i < columns; ++i) top = fmaxf(top, x[row * columns + i] + table.at[row * 37 + i]);
    y[row] = top;
}

torch::Tensor row_max(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    static Table table = {};
    max_kernel<<<1, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1), table);
    return y;
}
""",
    functions=["row_max"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_max(x.contiguous())
