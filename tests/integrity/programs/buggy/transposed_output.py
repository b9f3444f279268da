# about = "Forgets the transposition."
# category = "interface"
# problem = "transpose_scale"
# status = ["incorrect"]
# finding = 'wrong-shape'

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="transpose_scale",
    cpp_sources="torch::Tensor transpose_scale(torch::Tensor x);",
    cuda_sources=r"""
__global__ void transpose_scale_kernel(const float* x, float* y, int rows, int columns) {
    __shared__ float tile[16][17];
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = x[row * columns + column] * 2.f + 1.f;
    __syncthreads();
    int to_row = blockIdx.x * 16 + threadIdx.y, to_column = blockIdx.y * 16 + threadIdx.x;
    if (to_row < columns && to_column < rows) y[to_row * rows + to_column] = tile[threadIdx.x][threadIdx.y];
}

torch::Tensor transpose_scale(torch::Tensor x) {
    int rows = x.size(0), columns = x.size(1);
    auto y = torch::empty({columns, rows}, x.options());
    transpose_scale_kernel<<<dim3((columns + 15) / 16, (rows + 15) / 16), dim3(16, 16)>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), rows, columns);
    return y;
}
""",
    functions=["transpose_scale"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.transpose_scale(x.contiguous()).t().contiguous()
