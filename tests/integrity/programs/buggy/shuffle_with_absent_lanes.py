# about = "Lanes beyond the row have left before all 32 are asked to shuffle."
# category = "races"
# group = "order"
# problem = "row_max"
# status = ["incorrect", "runtime_error", "timeout"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_max",
    cpp_sources="torch::Tensor row_max(torch::Tensor x);",
    cuda_sources=r"""
__global__ void max_kernel(const float* x, float* y, int rows, int columns) {
    float top = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += 32) top = fmaxf(top, x[blockIdx.x * columns + i]);
    if (threadIdx.x >= columns % 32) return;
    for (int apart = 16; apart > 0; apart /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, apart));
    if (threadIdx.x == 0) y[blockIdx.x] = top;
}

torch::Tensor row_max(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    max_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}
""",
    functions=["row_max"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_max(x.contiguous())
