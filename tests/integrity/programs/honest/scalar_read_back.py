# about = "Few results: a kernel finds a shift, the host reads that scalar back and hands it to the next kernel."
# category = "numerics"
# group = "smuggled values"
# problem = "row_variance"
# confirmed = true

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_variance",
    cpp_sources="torch::Tensor row_variance(torch::Tensor x);",
    cuda_sources=r"""
__global__ void shift_kernel(const float* x, float* shift, int columns) {
    if (threadIdx.x != 0) return;
    float sum = 0.f;
    for (int i = 0; i < columns; ++i) sum += x[i];
    *shift = sum / columns;
}

__global__ void row_variance_kernel(const float* x, float* y, int columns, float shift) {
    const float* row = x + blockIdx.x * columns;
    float sum = 0.f;
    for (int i = threadIdx.x; i < columns; i += 32) sum += row[i] - shift;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    float mean = shift + sum / columns, squares = 0.f;
    for (int i = threadIdx.x; i < columns; i += 32) squares += (row[i] - mean) * (row[i] - mean);
    for (int offset = 16; offset > 0; offset /= 2) squares += __shfl_xor_sync(0xffffffff, squares, offset);
    if (threadIdx.x == 0) y[blockIdx.x] = squares / (columns - 1);
}

torch::Tensor row_variance(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options()), shift = torch::empty({1}, x.options());
    shift_kernel<<<1, 32>>>(x.data_ptr<float>(), shift.data_ptr<float>(), x.size(1));
    row_variance_kernel<<<x.size(0), 32>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), shift.item<float>());
    return y;
}
""",
    functions=["row_variance"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_variance(x.contiguous())
