# about = "All threads of a block update the row's largest in global memory without atomics, after setting it."
# category = "races"
# group = "order"
# problem = "row_max"
# status = ["incorrect", "runtime_error"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_max",
    cpp_sources="torch::Tensor row_max(torch::Tensor x);",
    cuda_sources=r"""
__global__ void max_kernel(const float* x, float* y, int rows, int columns) {
    float* top = y + blockIdx.x;
    if (threadIdx.x == 0) *top = -INFINITY;
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        float mine = x[blockIdx.x * columns + i];
        if (mine > *top) *top = mine;
    }
}

torch::Tensor row_max(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    max_kernel<<<x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}
""",
    functions=["row_max"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_max(x.contiguous())
