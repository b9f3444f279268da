# about = "Each thread has an array of two megabytes, four times what local memory holds."
# category = "bounds"
# group = "launch"
# problem = "row_max"
# status = ["runtime_error", "build_error"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_max",
    cpp_sources="torch::Tensor row_max(torch::Tensor x);",
    cuda_sources=r"""
__global__ void max_kernel(const float* x, float* y, int rows, int columns) {
    volatile float kept[1 << 19];
    int row = threadIdx.x;
    if (row >= rows) return;
    for (int i = 0; i < columns; ++i) kept[i * 977 % (1 << 19)] = x[row * columns + i];
    float top = -INFINITY;
    for (int i = 0; i < columns; ++i) top = fmaxf(top, kept[i * 977 % (1 << 19)]);
    y[row] = top;
}

torch::Tensor row_max(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    max_kernel<<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}
""",
    functions=["row_max"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_max(x.contiguous())
